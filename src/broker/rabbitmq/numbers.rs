//! The highest numbers of the store, kept where a restore of the store does not reach them.
//!
//! They are the key of a binding between the two exchanges that say whose the broker is, and go with these. AMQP shows
//! bindings to nobody, so without the management API nothing is kept. A new key is bound before the lower ones are
//! unbound, and what counts is the highest of each: daemons that do so at the same moment lose nothing, and the next one
//! leaves one binding.

use super::RabbitMq;
use super::asks;
use super::frames::ShortString;
use super::prepare::short;
use crate::broker::BrokerError;
use crate::domain::id::StoreId;
use crate::domain::numbers::Numbers;

/// What the key of the binding begins with.
const KEY: &str = "numbers";

pub(super) async fn kept(broker: &RabbitMq, store: &StoreId) -> Result<Option<Numbers>, BrokerError> {
    let found = found(broker, store).await?.unwrap_or_default();
    Ok(found.into_iter().reduce(Numbers::highest))
}

pub(super) async fn keep(broker: &RabbitMq, store: &StoreId, numbers: Numbers) -> Result<(), BrokerError> {
    let Some(found) = found(broker, store).await? else {
        return Ok(());
    };
    let highest = found.iter().copied().fold(numbers, Numbers::highest);
    if found == [highest] {
        return Ok(());
    }
    let naming = &broker.settings.naming;
    let (identity, owner) = (
        short(&naming.identity_exchange())?,
        short(&naming.owner_exchange(store))?,
    );
    let mut steps = vec![asks::exchange_bind(&identity, &owner, &key(highest))];
    for lower in found.iter().filter(|one| **one != highest) {
        steps.push(asks::exchange_unbind(&identity, &owner, &key(*lower)));
    }
    let kept = broker.admin.spare.ask(&steps).await.map(drop);
    kept.map_err(|error| broker.admin.error("keep numbers", &error))
}

/// All that are there; `None`: nobody can read them.
async fn found(broker: &RabbitMq, store: &StoreId) -> Result<Option<Vec<Numbers>>, BrokerError> {
    let Some(management) = &broker.management else {
        return Ok(None);
    };
    let owner = broker.settings.naming.owner_exchange(store);
    let bindings = management.exchange(&owner).await?.map(|detail| detail.bindings);
    let keys = bindings.unwrap_or_default().into_iter().map(|one| one.routing_key);
    Ok(Some(keys.filter_map(|key| read(&key)).collect()))
}

fn key(numbers: Numbers) -> ShortString {
    ShortString::ours(&format!("{KEY}.{}.{}", numbers.generation, numbers.epoch))
}

fn read(key: &str) -> Option<Numbers> {
    let (generation, epoch) = key.strip_prefix(KEY)?.strip_prefix('.')?.split_once('.')?;
    Some(Numbers {
        generation: generation.parse().ok()?,
        epoch: epoch.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_the_numbers_and_other_keys_say_nothing() {
        let numbers = Numbers {
            generation: 7,
            epoch: 1_790_000_000_123,
        };
        assert_eq!(read(key(numbers).as_str()), Some(numbers));
        for other in ["", "numbers", "numbers.1", "numbers.1.x", "number.1.2"] {
            assert_eq!(read(other), None, "{other:?}");
        }
    }
}
