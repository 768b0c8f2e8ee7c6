//! The vhost itself: whether it is there, whether it can be made from here, and making it.
//!
//! Only AMQP says for sure that it is missing: the management API answers 404 for whatever is not there, and 401 to
//! whoever may not see it.

use super::RabbitMq;
use crate::broker::{BrokerError, VhostFound};

/// Looks over AMQP.
pub(super) async fn find(broker: &RabbitMq) -> Result<VhostFound, BrokerError> {
    match broker.admin.enter().await {
        Ok(()) => Ok(VhostFound::There),
        Err(BrokerError::Vhost { .. }) => Ok(VhostFound::Missing {
            cannot: why_not_made(broker).await,
        }),
        Err(error) => Err(error),
    }
}

async fn why_not_made(broker: &RabbitMq) -> Option<String> {
    if !broker.settings.provision {
        return Some("broker.provision is false".to_owned());
    }
    let management = match broker.management() {
        Ok(management) => management,
        Err(error) => return Some(error.to_string()),
    };
    match management.is_administrator().await {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "the user {:?} of broker.management_url is no administrator of the broker",
            management.user()
        )),
        Err(error) => Some(error.to_string()),
    }
}

/// Makes it, and gives our user every right on it.
pub(super) async fn make(broker: &RabbitMq) -> Result<(), BrokerError> {
    let management = broker.management()?;
    management.vhost_create().await?;
    management.permissions_grant(&broker.dialer.address.user).await?;
    tracing::info!(vhost = ?broker.dialer.vhost, "made the vhost");
    broker.admin.enter().await
}

/// What the management API could not do because there is no such vhost says so.
pub(super) async fn named<T>(broker: &RabbitMq, answer: Result<T, BrokerError>) -> Result<T, BrokerError> {
    match answer {
        Err(error) if may_be_missing(&error) => {
            exists(broker).await?;
            Err(error)
        }
        answer => answer,
    }
}

/// Whether the management API says so of what is in a vhost that is not there.
fn may_be_missing(error: &BrokerError) -> bool {
    let not_there = |detail: &str| detail.starts_with("management API answers 404");
    matches!(error, BrokerError::Rights { .. })
        || matches!(error, BrokerError::Failed { detail, .. } if not_there(detail))
}

/// # Errors
/// It does not exist. Whatever else is wrong is no matter of the vhost.
pub(super) async fn exists(broker: &RabbitMq) -> Result<(), BrokerError> {
    match broker.admin.enter().await {
        Err(missing @ BrokerError::Vhost { .. }) => Err(missing),
        Ok(()) | Err(_) => Ok(()),
    }
}
