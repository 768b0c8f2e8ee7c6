//! Changing a policy: plan, execute, and what follows for what waits.
//!
//! A plan is about one version of one policy, and about the messages that the change would give up at once:
//! those are frozen. The times of the others move by themselves, and are shown without being part of the hash.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::backlog::{Backlog, Supposed};
use super::view::{Forecast, ForecastLine, PolicyAct, PolicyEdit};
use super::{Policies, check_scope, document, name_of, owner_of};
use crate::domain::mask::MASK;
use crate::domain::naming::hex;
use crate::domain::policy::{PolicyOwner, Rescheduled, RetryPolicy};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::domain::value::Value;
use crate::domain::words::{lasts, plural};
use crate::engine::EngineError;
use crate::engine::command::{Command, Danger, Done, Plan, PlanLine, WriteGrant};
use crate::engine::operation::{About, Friction, Operation, Subject};
use crate::store::{NewPolicy, PolicyChange, PolicyChanged, PolicyScope, PolicyVersion, StoreError};

/// What an edit comes to.
struct Target {
    newest: Option<PolicyVersion>,
    /// The text to save.
    document: Option<String>,
    /// It, read.
    policy: Option<RetryPolicy>,
}

impl Target {
    fn version(&self) -> i64 {
        self.newest.as_ref().map_or(0, |newest| newest.version)
    }
}

impl Operation<Policies> for PolicyEdit {
    fn about(&self) -> About {
        let back = |act| {
            Ok(Command::Policy(Self {
                scope: self.scope.clone(),
                act,
                expected: None,
            }))
        };
        About {
            name: match self.act {
                PolicyAct::Set(_) => "policy set",
                PolicyAct::Unset => "policy unset",
                PolicyAct::Restore(_) => "policy restore",
            },
            subject: Subject::Policy(self.scope.clone()),
            friction: Friction::Messages("number of messages"),
            undo: match self.expected {
                // What was newest when it was planned; before the first one there was the default.
                Some(0) => back(PolicyAct::Unset),
                Some(version) => back(PolicyAct::Restore(Some(version))),
                None => Err("H opens the versions of the policy, R there restores one"),
            },
        }
    }

    /// The policy; the other lines say what follows from that.
    fn changes(&self, plan: &Plan) -> Vec<String> {
        plan.lines.iter().take(1).map(|line| line.target.clone()).collect()
    }

    async fn plan(&self, policies: &Arc<Policies>) -> Result<Plan, EngineError> {
        policies.plan_policy(self).await
    }

    async fn perform(&self, policies: &Arc<Policies>, _: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        policies.change_policy(self, grant).await
    }
}

impl Policies {
    /// What the edit would do at present.
    pub(in crate::engine) async fn plan_policy(&self, edit: &PolicyEdit) -> Result<Plan, EngineError> {
        let target = self.policy_target(edit).await?;
        let mut frozen = format!("{:?}\n{:?}\n{:?}\n", edit.scope, target.newest, target.document);
        let mut forecast = Forecast::default();
        let mut backlog = Backlog::new(self, &edit.scope, Some(supposed(edit, &target)));
        while let Some(page) = backlog.next().await? {
            for judged in &page {
                forecast.count(judged);
                if judged.ends() {
                    let _ = writeln!(frozen, "{:?}", judged.identity());
                }
            }
        }
        let mut book = self.book(&around(&edit.scope)).await?;
        let published = edit.scope.published();
        let (before, source_before) = book.of_scope(&edit.scope);
        let before = before.clone();
        let now = described(&before);
        let version = version_of(target.newest.as_ref(), source_before.in_words(published, &before));
        book.suppose(&edit.scope, target.policy.clone());
        let (after, source) = book.of_scope(&edit.scope);
        let first = PlanLine {
            target: name_of(&edit.scope),
            now: format!("{version}: {now}"),
            effect: match &target.policy {
                Some(_) => format!("version {}: {}", target.version() + 1, described(after)),
                None => format!(
                    "unset; what applies then ({}): {}",
                    source.in_words(published, after),
                    described(after)
                ),
            },
        };
        let keys = differences(owner_of(&edit.scope), &before, after);
        let lines = std::iter::once(first)
            .chain(keys)
            .chain(forecast.lines.iter().map(line));
        Ok(Plan {
            title: title(edit, &forecast),
            lines: lines.collect(),
            warnings: warnings(&forecast),
            messages: Some(forecast.changed()),
            danger: Danger::Reversible,
            hash: hex(&Sha256::digest(frozen.as_bytes())),
            command: Command::Policy(PolicyEdit {
                expected: Some(target.version()),
                ..edit.clone()
            }),
            run: None,
            ends_reason: None,
            names: Vec::new(),
        })
    }

    /// Saves the version that was planned, and applies it to what waits: the first page in one transaction with
    /// it, the rest after. Then everything once more, for what came to wait in between.
    pub(in crate::engine) async fn change_policy(
        &self,
        edit: &PolicyEdit,
        grant: &WriteGrant,
    ) -> Result<Done, EngineError> {
        let target = self.policy_target(edit).await?;
        let mut backlog = Backlog::new(self, &edit.scope, Some(supposed(edit, &target)));
        let first = backlog.next().await?.unwrap_or_default();
        let change = PolicyChange {
            new: NewPolicy {
                scope: edit.scope.clone(),
                document: target.document.clone(),
                author: grant.actor().to_owned(),
            },
            expected: edit.expected.unwrap_or_else(|| target.version()),
            moves: first.iter().filter_map(super::backlog::Judged::moves).collect(),
        };
        match self.store.policy_change(&change).await? {
            PolicyChanged::Saved { version, moved } => {
                tracing::info!(scope = ?edit.scope, version, moved, "policy changed");
            }
            PolicyChanged::Stale { newest } => return Err(stale(newest)),
        }
        self.reapply(&edit.scope).await?;
        self.store.generation_raise().await?;
        self.read_endpoints().await?;
        Ok(Done::Policy(Box::new(self.policy_view(&edit.scope).await?)))
    }

    /// What this policy would do to what waits.
    pub(super) async fn forecast(
        &self,
        scope: &PolicyScope,
        policy: Option<&RetryPolicy>,
    ) -> Result<Forecast, StoreError> {
        let mut forecast = Forecast::default();
        let mut backlog = Backlog::new(self, scope, Some(Supposed { scope, policy }));
        while let Some(page) = backlog.next().await? {
            for judged in &page {
                forecast.count(judged);
            }
        }
        Ok(forecast)
    }

    async fn policy_target(&self, edit: &PolicyEdit) -> Result<Target, EngineError> {
        check_scope(&edit.scope)?;
        if matches!(edit.act, PolicyAct::Set(_)) && edit.scope.url.as_ref().is_some_and(has_masked_value) {
            return Err(EngineError::Invalid {
                field: "url".to_owned(),
                message: format!(
                    "{MASK} in a query stands for a value that is not shown: give the URL as the publisher writes it"
                ),
            });
        }
        let newest = self.newest_policy(&edit.scope).await?;
        let version = newest.as_ref().map_or(0, |newest| newest.version);
        if edit.expected.is_some_and(|expected| expected != version) {
            return Err(stale(version));
        }
        let owner = owner_of(&edit.scope);
        let never_set = || EngineError::NotFound {
            what: format!("a policy of {}", name_of(&edit.scope)),
        };
        let document = match &edit.act {
            PolicyAct::Set(text) => document::canonical(text, owner)?,
            PolicyAct::Unset if newest.as_ref().is_some_and(|newest| newest.document.is_some()) => None,
            PolicyAct::Unset => return Err(never_set()),
            PolicyAct::Restore(None) if version == 0 => return Err(never_set()),
            // Before the first version there was none.
            PolicyAct::Restore(None) if version == 1 => None,
            PolicyAct::Restore(number) => {
                let number = number.unwrap_or(version - 1);
                let found = self.store.policy_version(&edit.scope, number).await?;
                let found = found.ok_or_else(|| EngineError::NotFound {
                    what: format!("version {number} of the policy of {}", name_of(&edit.scope)),
                })?;
                found.document
            }
        };
        let policy = match &document {
            Some(text) => document::read(text, owner)?,
            None => None,
        };
        Ok(Target {
            newest,
            document,
            policy,
        })
    }

    pub(in crate::engine) async fn newest_policy(
        &self,
        scope: &PolicyScope,
    ) -> Result<Option<PolicyVersion>, StoreError> {
        Ok(self.store.policies_newest(std::slice::from_ref(scope)).await?.pop())
    }
}

/// Whether a value of its query is the one that lists show in the place of each.
fn has_masked_value(url: &EndpointUrl) -> bool {
    let query = url.as_str().split_once('?').map_or("", |(_, query)| query);
    let mut values = query.split('&').filter_map(|pair| pair.split_once('='));
    values.any(|(_, value)| value == MASK)
}

/// The scopes that decide what applies where `scope` does.
pub(super) fn around(scope: &PolicyScope) -> Vec<PolicyScope> {
    match &scope.url {
        Some(url) => super::scopes_of(scope.event_type.as_deref(), url),
        None => vec![scope.clone()],
    }
}

fn supposed<'a>(edit: &'a PolicyEdit, target: &'a Target) -> Supposed<'a> {
    Supposed {
        scope: &edit.scope,
        policy: target.policy.as_ref(),
    }
}

fn stale(newest: i64) -> EngineError {
    let why = match newest {
        0 => "no policy is set there: leave the version out".to_owned(),
        newest => format!("the plan is stale, version {newest} of the policy was saved meanwhile: plan again"),
    };
    EngineError::Refused { why }
}

/// The newest version; where none holds, whose policy does.
fn version_of(newest: Option<&PolicyVersion>, whose: &str) -> String {
    match newest {
        None => format!("not set, {whose} holds"),
        Some(newest) if newest.document.is_none() => {
            format!("unset since version {}, {whose} holds", newest.version)
        }
        Some(newest) => format!("version {}", newest.version),
    }
}

fn for_seconds(seconds: u64) -> String {
    lasts(Duration::from_secs(seconds))
}

/// A policy in a few words.
fn described(policy: &RetryPolicy) -> String {
    let schedule = policy.schedule();
    format!(
        "{} within {}",
        plural(schedule.attempts().into(), "attempt", "attempts"),
        for_seconds(schedule.total_s())
    )
}

/// The keys whose values differ.
fn differences(owner: PolicyOwner, before: &RetryPolicy, after: &RetryPolicy) -> Vec<PlanLine> {
    let values = |policy: &RetryPolicy| match policy.to_value(owner) {
        Value::Table(entries) => entries,
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => {
            Vec::new()
        }
    };
    let (before, after) = (values(before), values(after));
    let of = |entries: &[(String, Value)], key: &str| match entries.iter().find(|(known, _)| known == key) {
        Some((_, Value::Text(text))) => text.clone(),
        Some((_, value)) => document::text(value),
        None => "not set".to_owned(),
    };
    let added = after
        .iter()
        .filter(|(key, _)| before.iter().all(|(known, _)| known != key));
    let keys = before.iter().chain(added).map(|(key, _)| key);
    keys.map(|key| PlanLine {
        target: key.clone(),
        now: of(&before, key),
        effect: of(&after, key),
    })
    .filter(|line| line.now != line.effect)
    .collect()
}

fn title(edit: &PolicyEdit, forecast: &Forecast) -> String {
    let name = name_of(&edit.scope);
    let what = match &edit.act {
        PolicyAct::Set(_) => format!("new retry policy for {name}"),
        PolicyAct::Unset => format!("no retry policy of its own for {name}"),
        PolicyAct::Restore(Some(version)) => format!("version {version} of the retry policy for {name}"),
        PolicyAct::Restore(None) => format!("the previous version of the retry policy for {name}"),
    };
    match forecast.waiting {
        0 => what,
        waiting => format!("{what}: {} of {waiting} next attempts move", forecast.changed()),
    }
}

fn line(line: &ForecastLine) -> PlanLine {
    PlanLine {
        target: if line.probes {
            line.url.redacted()
        } else {
            line.queue.as_str().to_owned()
        },
        now: format!(
            "attempt {} of {}, {}",
            line.attempt,
            line.of_before,
            moment(line.before)
        ),
        effect: match line.after {
            Rescheduled::At { at, .. } => format!("attempt {} of {}, {}", line.attempt, line.of, moment(Some(at))),
            Rescheduled::Parked => format!("parks: {} attempts are used up", line.of),
            Rescheduled::DeadLettered => format!("becomes a dead letter: {} attempts are used up", line.of),
        },
    }
}

fn moment(at: Option<Timestamp>) -> String {
    let text = |at: Timestamp| {
        let at = time::OffsetDateTime::from_unix_timestamp(at.seconds()).ok()?;
        at.format(&time::format_description::well_known::Rfc3339).ok()
    };
    at.map_or_else(
        || "parked".to_owned(),
        |at| text(at).map_or_else(|| "at no time".to_owned(), |text| format!("due at {text}")),
    )
}

fn warnings(forecast: &Forecast) -> Vec<String> {
    let counted = [
        (
            forecast.dead_lettered,
            "are of messages that become dead letters at once",
        ),
        (
            forecast.parked,
            "are not made: the messages park and wait for `redrive redeliver`",
        ),
        (
            forecast.going_on,
            "are of parked messages, which continue by the longer schedule",
        ),
        (forecast.sooner, "come sooner"),
        (forecast.later, "come later"),
        (forecast.unchanged, "stay as they are"),
        (
            forecast.in_attempt,
            "are being made now; the new policy judges how they end",
        ),
    ];
    let of = forecast.waiting;
    counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} of {of} next attempts {what}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::url::EndpointUrl;

    #[test]
    fn a_policy_goes_back_to_the_version_before_and_the_first_one_to_the_default() {
        let url = EndpointUrl::parse("https://stock.example/changed").unwrap();
        let edit = |act, expected| PolicyEdit {
            scope: PolicyScope {
                url: Some(url.clone()),
                event_type: None,
            },
            act,
            expected,
        };
        let undone = |expected| edit(PolicyAct::Set("{}".to_owned()), expected).about().undo;
        assert_eq!(undone(Some(0)), Ok(Command::Policy(edit(PolicyAct::Unset, None))));
        assert_eq!(
            undone(Some(3)),
            Ok(Command::Policy(edit(PolicyAct::Restore(Some(3)), None)))
        );
    }
}
