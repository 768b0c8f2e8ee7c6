//! Event types, subscriptions and claims.

use super::when::{told, told_or_dash};
use crate::engine::events::{Claim as ClaimRow, ClaimRequest, EventCommand, SubscriptionChoice};
use crate::engine::query;
use crate::engine::{Command, calls};
use crate::wire::event::{self as wire, Claim as ClaimShape, Subscription as SubscriptionShape, Type};
use crate::wire::input;

use super::done::How;
use super::event_args::{Claim, EventType, OfType, Subscription};
use super::exit::{Exit, Failure};
use super::output::{Column, document, note, or_dash, print, say};
use super::{Session, events, given};

const TYPES: &[Column] = &[Column::Text("type"), Column::Text("metadata"), Column::Text("since")];
const SUBSCRIPTIONS: &[Column] = &[
    Column::Number("id"),
    Column::Text("type"),
    Column::Text("url"),
    Column::Text("options"),
];
const CLAIMED: &[Column] = &[
    Column::Number("id"),
    Column::Text("reference"),
    Column::Number("claims"),
    Column::Text("payload"),
];
/// Metadata is at most this large.
const METADATA_BYTES_MAX: usize = 64 * 1024;

pub(super) async fn event_type(session: &Session<'_>, event_type: &EventType) -> Result<Exit, Failure> {
    match event_type {
        EventType::Show { name: None } => {
            let types = session.engine.query(query::EventTypes()).await?;
            let types: Vec<Type> = types.iter().map(Type::from).collect();
            session.output.list(&types, TYPES, |of| {
                vec![
                    of.name.clone(),
                    of.metadata.to_string(),
                    told_or_dash(of.created_at.as_deref()),
                ]
            })?;
            Ok(Exit::Done)
        }
        EventType::Show { name: Some(name) } => {
            let question = query::OneEventType(wire::event_type(name)?);
            let record = session.engine.query(question).await?;
            let shape = Type::from(&record);
            let facts = [
                ("type", Some(shape.name.clone())),
                ("metadata", Some(shape.metadata.to_string())),
                ("since", shape.created_at.as_deref().map(told)),
                ("changed", shape.updated_at.as_deref().map(told)),
            ];
            session.output.facts(&shape, &facts)?;
            Ok(Exit::Done)
        }
        EventType::Set { name, metadata } => {
            let bytes = given::bytes("--metadata", metadata, METADATA_BYTES_MAX)?;
            let command = EventCommand::SetType {
                event_type: wire::event_type(name)?,
                document: String::from_utf8_lossy(bytes.trim_ascii()).into_owned(),
            };
            act(session, command).await
        }
    }
}

pub(super) async fn subscription(session: &Session<'_>, subscription: &Subscription) -> Result<Exit, Failure> {
    match subscription {
        Subscription::List(of) => {
            let question = query::Subscriptions(named(of)?);
            let rows = session.engine.query(question).await?;
            let rows: Vec<SubscriptionShape> = rows.iter().map(SubscriptionShape::from).collect();
            session.output.list(&rows, SUBSCRIPTIONS, |row| {
                vec![
                    row.id.to_string(),
                    row.r#type.clone(),
                    row.url.clone(),
                    row.options.to_string(),
                ]
            })?;
            Ok(Exit::Done)
        }
        Subscription::Add { of, url, options } => {
            let command = EventCommand::Subscribe {
                event_type: named(of)?,
                url: input::url(url)?,
                options: given::text("--options", options)?.into_owned(),
            };
            act(session, command).await
        }
        Subscription::Remove { of, id, url } => {
            let which = match (id, url) {
                (Some(id), _) => SubscriptionChoice::Id(*id),
                (None, Some(url)) => SubscriptionChoice::Url(input::url(url)?),
                (None, None) => return Err(Failure::new(Exit::Usage, "give an id or --url")),
            };
            let event_type = named(of)?;
            act(session, EventCommand::Unsubscribe { event_type, which }).await
        }
    }
}

async fn act(session: &Session<'_>, command: EventCommand) -> Result<Exit, Failure> {
    session.act(Command::Events(command), How::ONE).await
}

pub(super) async fn claim(session: &Session<'_>, claim: &Claim) -> Result<Exit, Failure> {
    if session.cli.global.dry_run {
        return would(session, claim).await;
    }
    let (engine, grant) = (session.engine, session.grant()?);
    match claim {
        Claim::Create { of, ttl, grace, limit } => {
            let request = ClaimRequest {
                event_type: named(of)?,
                ttl_s: *ttl,
                grace_s: *grace,
                limit: *limit,
            };
            let event_type = request.event_type.clone();
            match engine.call(calls::CreateClaim { request }, &grant).await? {
                Some(claim) => print_claim(session, &event_type, &claim),
                None => nothing(session),
            }
        }
        Claim::Renew { of, claim, ttl, grace } => {
            let event_type = named(of)?;
            let renew = calls::RenewClaim {
                event_type: event_type.clone(),
                claim: claim.clone(),
                ttl_s: *ttl,
                grace_s: *grace,
            };
            let renewed = engine.call(renew, &grant).await?;
            print_claim(session, &event_type, &renewed)
        }
        Claim::Release { of, claim } => {
            let release = calls::ReleaseClaim {
                event_type: named(of)?,
                claim: claim.clone(),
            };
            let released = engine.call(release, &grant).await?;
            let shape = serde_json::json!({"id": claim, "released": released});
            session
                .output
                .facts(&shape, &[("released", Some(released.to_string()))])?;
            Ok(Exit::Done)
        }
        Claim::Done { of, claim, reference } => {
            let reference = wire::reference(reference)?;
            let finish = calls::FinishEvent {
                event_type: named(of)?,
                reference: reference.clone(),
                claim: claim.clone(),
            };
            let finished = engine.call(finish, &grant).await?;
            let shape = serde_json::json!({"reference": reference.as_str(), "result": finished.as_str()});
            session
                .output
                .facts(&shape, &[("result", Some(finished.as_str().to_owned()))])?;
            Ok(Exit::Done)
        }
    }
}

/// What would be claimed, or the claim as it is.
async fn would(session: &Session<'_>, claim: &Claim) -> Result<Exit, Failure> {
    let (Claim::Create { of, .. } | Claim::Renew { of, .. } | Claim::Release { of, .. } | Claim::Done { of, .. }) =
        claim;
    let event_type = named(of)?;
    let (id, what) = match claim {
        Claim::Create { limit, .. } => {
            // An unknown type is an error, as it is for a claim.
            session.engine.query(query::OneEventType(event_type.clone())).await?;
            let due = events::due_of(session, &event_type).await?;
            let events = due.min(u64::from(*limit));
            say("nothing was claimed: this is how many events would be");
            let facts = [("due", Some(due.to_string())), ("events", Some(events.to_string()))];
            session
                .output
                .facts(&serde_json::json!({ "due": due, "events": events }), &facts)?;
            return Ok(Exit::Done);
        }
        Claim::Renew { claim, .. } => (claim, "not renewed"),
        Claim::Release { claim, .. } => (claim, "not released"),
        Claim::Done { claim, .. } => (claim, "nothing is done"),
    };
    let found = session
        .engine
        .query(query::OneClaim(event_type.clone(), id.clone()))
        .await?;
    say(&format!("{what}: this is the claim as it is"));
    print_claim(session, &event_type, &found)
}

fn named(of: &OfType) -> Result<crate::domain::event::EventType, Failure> {
    Ok(wire::event_type(&of.event_type)?)
}

fn nothing(session: &Session<'_>) -> Result<Exit, Failure> {
    note("there is nothing to claim");
    if session.output.is_json() {
        document(&serde_json::Value::Null)?;
    }
    Ok(Exit::Done)
}

fn print_claim(
    session: &Session<'_>,
    event_type: &crate::domain::event::EventType,
    claim: &ClaimRow,
) -> Result<Exit, Failure> {
    let shape = ClaimShape::of(event_type, claim);
    if session.output.is_json() {
        document(&shape)?;
        return Ok(Exit::Done);
    }
    // On standard output, like everything that a script goes on with.
    print(format!("claim {} until {}\n", shape.id, or_dash(shape.expires_at.as_deref())).as_bytes())?;
    session.output.list(&shape.events, CLAIMED, |event| {
        vec![
            event.id.to_string(),
            event.reference.clone(),
            event.claim_count.to_string(),
            event.payload.as_ref().map(ToString::to_string).unwrap_or_default(),
        ]
    })?;
    Ok(Exit::Done)
}
