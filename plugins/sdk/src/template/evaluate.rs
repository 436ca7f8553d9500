//! Renders the nodes of a template within the bounds.

use super::functions::FunctionCall;
use super::{
    IfBranch, LONGEST_RESULT, LONGEST_VALUE, MOST_STEPS, Operand, Pipeline, RenderContext,
    TemplateFault, TemplateNames, TemplateNode, TemplateValue,
};

/// Renders the nodes for `names`, and for the user's name if there is one.
pub(super) fn render(
    nodes: &[TemplateNode],
    names: &TemplateNames<'_>,
    username: Option<&str>,
    context: &RenderContext<'_>,
) -> Result<Vec<u8>, TemplateFault> {
    let mut evaluation =
        TemplateEvaluation { names, username, context, steps: 0, output: Vec::new() };
    evaluation.nodes(nodes)?;
    Ok(evaluation.output)
}

struct TemplateEvaluation<'a> {
    names: &'a TemplateNames<'a>,
    username: Option<&'a str>,
    context: &'a RenderContext<'a>,
    steps: u32,
    output: Vec<u8>,
}

impl TemplateEvaluation<'_> {
    fn nodes(&mut self, nodes: &[TemplateNode]) -> Result<(), TemplateFault> {
        for node in nodes {
            match node {
                TemplateNode::Text(text) => self.output.extend_from_slice(text.as_bytes()),
                TemplateNode::Show(pipeline) => {
                    let value = self.pipeline(pipeline)?;
                    self.output.extend(value.to_bytes());
                }
                TemplateNode::If(branches) => self.branches(branches)?,
            }
            if self.output.len() > LONGEST_RESULT {
                return Err(TemplateFault::TooLong);
            }
        }
        Ok(())
    }

    fn branches(&mut self, branches: &[IfBranch]) -> Result<(), TemplateFault> {
        for branch in branches {
            let taken = match &branch.condition {
                None => true,
                Some(condition) => self.pipeline(condition)?.is_true(),
            };
            if taken {
                return self.nodes(&branch.body);
            }
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Result<TemplateValue, TemplateFault> {
        let mut piped = None;
        for command in &pipeline.commands {
            piped = Some(self.command(command, piped.take())?);
        }
        piped.ok_or_else(|| TemplateFault::Unexpected("}}".to_owned()))
    }

    /// Evaluates a function with its arguments, the piped value last. Any other operand must stand
    /// alone.
    fn command(
        &mut self,
        command: &[Operand],
        piped: Option<TemplateValue>,
    ) -> Result<TemplateValue, TemplateFault> {
        match command.split_first() {
            Some((Operand::Function(function), rest)) => {
                self.step()?;
                let mut arguments = Vec::with_capacity(rest.len() + 1);
                for operand in rest {
                    arguments.push(self.operand(operand)?);
                }
                arguments.extend(piped);
                check_length(
                    FunctionCall { function: *function, context: self.context }.value(arguments)?,
                )
            }
            Some((operand, [])) if piped.is_none() => self.operand(operand),
            _ => Err(TemplateFault::Unexpected("a value with arguments".to_owned())),
        }
    }

    fn operand(&mut self, operand: &Operand) -> Result<TemplateValue, TemplateFault> {
        self.step()?;
        match operand {
            Operand::DisplayName => {
                check_length(TemplateValue::Text(self.names.display_name.as_bytes().to_vec()))
            }
            Operand::RoleName => {
                check_length(TemplateValue::Text(self.names.role_name.as_bytes().to_vec()))
            }
            Operand::Username => {
                let unknown = || TemplateFault::UnknownField(".Username".to_owned());
                check_length(TemplateValue::Text(
                    self.username.ok_or_else(unknown)?.as_bytes().to_vec(),
                ))
            }
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Group(pipeline) => self.pipeline(pipeline),
            Operand::Function(function) => check_length(
                FunctionCall { function: *function, context: self.context }.value(Vec::new())?,
            ),
        }
    }

    fn step(&mut self) -> Result<(), TemplateFault> {
        self.steps += 1;
        if self.steps > MOST_STEPS { Err(TemplateFault::TooManySteps) } else { Ok(()) }
    }
}

fn check_length(value: TemplateValue) -> Result<TemplateValue, TemplateFault> {
    match &value {
        TemplateValue::Text(text) if text.len() > LONGEST_VALUE => Err(TemplateFault::TooLong),
        _ => Ok(value),
    }
}

impl TemplateValue {
    /// Returns the bytes that a template prints.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(number) => number.to_string().into_bytes(),
            Self::Bool(flag) => flag.to_string().into_bytes(),
        }
    }

    /// Returns Go's truth of a value: empty text, zero and false are false.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::Int(number) => *number != 0,
            Self::Bool(flag) => *flag,
        }
    }
}
