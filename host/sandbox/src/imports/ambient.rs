//! The `ambient` import: environment, cloud tokens and pod data of this machine, each with a
//! separate grant.
//!
//! The import changes nothing. Tokens, and values with a name that marks them as secret, join the
//! call's secrets before the component gets them.

use crate::bindings::secrets_engine::bulkhead::plugin::ambient::{Host, MachineToken, Pod};
use crate::call_tree::SideEffect;
use crate::contract::Failure;
use crate::grants::{Act, AmbientAct};
use crate::limits::{self, ExceededLimit};
use crate::state::{CallState, refusal};
use bulkhead_outbound::ambient::{CloudProvider, ExpiringToken, MetadataRequest, address_of};
use bulkhead_outbound::http::{self, ByteMeter, HttpAnswer, HttpFault};
use bulkhead_wire::failure::{Failure as Refused, FailureKind};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// Words that mark the name of a value as secret.
const SECRET_WORDS: [&str; 7] =
    ["SECRET", "TOKEN", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL", "ASSERTION"];

impl Host for CallState {
    fn environment(&mut self, name: String) -> wasmtime::Result<Result<Option<String>, Failure>> {
        granted!(self, Act::Ambient(AmbientAct::Environment(&name)));
        let value = match self.resources.ambient.value(&name) {
            Ok(Some(value)) => value,
            Ok(None) => return Ok(Ok(None)),
            Err(refused) => return Ok(Err(refusal(&refused))),
        };
        self.charge(value.len())?;
        let name = name.to_ascii_uppercase();
        if SECRET_WORDS.iter().any(|word| name.contains(word)) {
            self.context.tree.secrets.add(&value);
        }
        Ok(Ok(Some(value)))
    }

    async fn cloud_token(
        &mut self,
        cloud: String,
        audience: String,
    ) -> wasmtime::Result<Result<MachineToken, Failure>> {
        granted!(self, Act::Ambient(AmbientAct::CloudToken));
        let most = self.limits().http_calls;
        if self.context.tree.count_http_call() > most {
            return Err(ExceededLimit::count("http-calls", most).into());
        }
        let meter = ByteMeter::new(&self.context.tree.http_bytes, self.limits().http_bytes);
        let cloud_token = token(self, &cloud, &audience, &meter).await;
        if meter.is_over() {
            return Err(ExceededLimit::size("http-bytes", self.limits().http_bytes).into());
        }
        let cloud_token = match cloud_token {
            Ok(cloud_token) => cloud_token,
            Err(refused) => return Ok(Err(refusal(&refused))),
        };
        self.context.tree.secrets.add(&cloud_token.token);
        self.charge(cloud_token.token.len())?;
        let ExpiringToken { token, expires } = cloud_token;
        Ok(Ok(MachineToken { token, expires, ext: Vec::new() }))
    }

    async fn find_pod(&mut self) -> wasmtime::Result<Result<Option<Pod>, Failure>> {
        granted!(self, Act::Ambient(AmbientAct::PodIdentity));
        self.charge_work(limits::PEM_BYTES)?;
        let pod = match self.resources.ambient.pod() {
            Ok(Some(pod)) => pod,
            Ok(None) => return Ok(Ok(None)),
            Err(refused) => return Ok(Err(refusal(&refused))),
        };
        let namespace = self.resources.ambient.pod_namespace().await;
        self.charge(namespace.as_ref().map_or(0, String::len))?;
        let (host, port) = (address_of(&pod.cluster.host), pod.cluster.port);
        Ok(Ok(Some(Pod { host, port, namespace, ext: Vec::new() })))
    }
}

/// Returns the cached token, or asks the cloud for a new token.
async fn token(
    state: &mut CallState,
    cloud: &str,
    audience: &str,
    meter: &ByteMeter,
) -> Result<ExpiringToken, Refused> {
    let cloud = CloudProvider::of(cloud)?;
    let question = state.resources.ambient.question(cloud, audience)?;
    state.context.tree.mark_effect(SideEffect::Safe);
    let at = Instant::now();
    let until = state.context.deadline.min(at + limits::METADATA_TIMEOUT);
    let cache = state.resources.cloud_tokens.of(cloud, audience, at);
    let Ok(mut cache) = timeout_at(until, cache.lock()).await else {
        let message = "the cloud's metadata service is slow; try again later";
        return Err(Refused::new(FailureKind::TimedOut, message));
    };
    let now = state.resources.now();
    if let Some(answer) = cache.cached_answer(now, Instant::now()) {
        return answer;
    }
    let answered = request_metadata(question, until, meter).await;
    let new_answer = answered.and_then(|answered| cloud.token_of(&answered, now));
    cache.store_answer(new_answer, now, Instant::now())
}

/// Sends the request in a separate task, because HTTP needs more stack than a call has. The task
/// ends with the call. The request uses no proxy and follows no redirect.
async fn request_metadata(
    question: MetadataRequest,
    until: Instant,
    meter: &ByteMeter,
) -> Result<HttpAnswer, Refused> {
    let MetadataRequest { address, request } = question;
    let mut tasks = JoinSet::new();
    tasks.spawn(http::ask_metadata(address, until, meter.clone(), request));
    let done = match tasks.join_next().await {
        Some(Ok(done)) => done,
        _ => Err(HttpFault::CutShort),
    };
    done.map_err(|fault| {
        let failure = fault.failure();
        let message = format!("the cloud's metadata service: {}", failure.message);
        Refused { message, ..failure }
    })
}
