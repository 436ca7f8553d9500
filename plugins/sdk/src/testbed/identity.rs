//! Identity in memory: numbered tokens that name their audience, and the entities that a test adds.

use super::script::Script;
use crate::host::{Entity, Identity, IdentityToken};
use bulkhead_wire::failure::Failure;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Lifetime of a token without a requested lifetime, in seconds.
const USUAL_TTL: u64 = 3_600;

/// Number of signed tokens, and entities by id.
pub(super) struct TestIdentity {
    script: Rc<Script>,
    signed: Cell<u32>,
    entities: RefCell<BTreeMap<String, Entity>>,
}

impl TestIdentity {
    pub(super) fn new(script: &Rc<Script>) -> Self {
        let (signed, entities) = (Cell::default(), RefCell::default());
        Self { script: Rc::clone(script), signed, entities }
    }

    /// Adds an entity that the mount can see.
    pub(super) fn add(&self, entity: Entity) {
        self.entities.borrow_mut().insert(entity.id.clone(), entity);
    }
}

impl Identity for TestIdentity {
    /// Returns `identity-token-1-for-<audience>` and so on, so that tests can name the expected
    /// token.
    fn token(&self, audience: &str, ttl: u64) -> Result<IdentityToken, Failure> {
        self.script.step("token", Some(&format!("for {audience}")), || {
            if audience.is_empty() {
                return Err(Failure::invalid("an audience has 1 to 1024 bytes"));
            }
            self.signed.set(self.signed.get() + 1);
            let token = format!("identity-token-{}-for-{audience}", self.signed.get());
            let ttl = if ttl == 0 { USUAL_TTL } else { ttl };
            let expires = self.script.now().saturating_add(ttl.saturating_mul(1_000));
            Ok(IdentityToken { token, expires })
        })
    }

    fn entity(&self, id: &str) -> Result<Option<Entity>, Failure> {
        self.script.step("entity", None, || Ok(self.entities.borrow().get(id).cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::script::StepFate;

    #[test]
    fn identity_tokens_differ_and_expire_as_requested() {
        let script = Rc::new(Script::default());
        let identity = TestIdentity::new(&script);
        let first = identity.token("sts.example.com", 60).unwrap();
        assert_eq!(first.token, "identity-token-1-for-sts.example.com");
        assert_eq!(first.expires, script.now() + 60_000);
        let second = identity.token("sts.example.com", 0).unwrap();
        assert_eq!(second.expires, script.now() + 3_600_000);
        assert!(first != second && !format!("{first:?}").contains("sts"), "{first:?}");
        assert_eq!(script.take_steps(), ["token for sts.example.com", "token for sts.example.com"]);
    }

    #[test]
    fn an_entity_is_seen_once_it_is_added() {
        let identity = TestIdentity::new(&Rc::default());
        let entity = Entity { id: "5e1c".to_owned(), ..Entity::default() };
        assert_eq!(identity.entity("5e1c").unwrap(), None);
        identity.add(entity.clone());
        assert_eq!(identity.entity("5e1c").unwrap(), Some(entity));
    }

    #[test]
    fn identity_token_can_be_refused_and_needs_audience() {
        let script = Rc::new(Script::default());
        script.arrange("token", StepFate::Refuse(Failure::denied("without a grant")));
        let identity = TestIdentity::new(&script);
        assert!(identity.token("a", 0).is_err());
        assert!(identity.token("", 0).is_err());
        assert!(identity.token("a", 0).is_ok());
    }
}
