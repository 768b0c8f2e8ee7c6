//! What an operator should mend: broker, rights, plugins, store, clock, daemons, queues.

use super::Inner;
use super::view::Check;

/// Clocks that differ by more than this are worth a warning, in seconds.
const SKEW_S: u64 = 2;

impl Inner {
    pub(super) async fn doctor(&self) -> Vec<Check> {
        let mut checks = self.broker_checks().await;
        checks.extend(self.store_checks().await);
        checks.extend(self.daemon_checks().await);
        checks.extend(self.intake_checks().await);
        checks.extend(self.preflight_checks().await);
        checks.extend(self.expiring_checks().await);
        checks
    }

    async fn broker_checks(&self) -> Vec<Check> {
        let health = self.broker.health().await;
        let version = health.version.as_deref().unwrap_or("unknown version");
        let mut checks = vec![match &health.problem {
            None if health.reachable => Check::fine("broker", format!("{} {version}", self.broker.kind())),
            problem => Check::broken(
                "broker",
                problem.clone().unwrap_or_else(|| "not reachable".to_owned()),
                "check broker.url, and that the broker runs",
            ),
        }];
        if let Some(alarm) = &health.blocked {
            checks.push(Check::broken(
                "alarm",
                alarm.clone(),
                "free memory or disk on the broker: it takes no publishes",
            ));
        }
        if self.broker.kind() == "rabbitmq" {
            checks.push(match &health.management_problem {
                None if health.management => Check::fine("management", "answers".to_owned()),
                problem => Check::warning(
                    "management",
                    problem.clone().unwrap_or_else(|| "does not answer".to_owned()),
                    "enable rabbitmq_management and check broker.management_url: without it depths and policies are unknown",
                ),
            });
            checks.push(if health.events {
                Check::fine("event exchange", "there".to_owned())
            } else {
                Check::warning(
                    "event exchange",
                    "not there".to_owned(),
                    "enable rabbitmq_event_exchange: new queues of foreign publishers are found faster",
                )
            });
        }
        checks.extend(
            health
                .warnings
                .into_iter()
                .map(|text| Check::warning("broker", text, "see the documentation of the broker")),
        );
        checks
    }

    async fn store_checks(&self) -> Vec<Check> {
        match self.store.now().await {
            Ok(now) => {
                let here = self.clock.now();
                let skew = now.since(here).max(here.since(now)).as_secs();
                let mut checks = vec![Check::fine("store", self.store.kind().to_owned())];
                if skew > SKEW_S {
                    checks.push(Check::warning(
                        "clock",
                        format!("differs from the store's by {skew} s"),
                        "synchronise the clocks of both hosts",
                    ));
                }
                checks
            }
            Err(error) => vec![Check::broken(
                "store",
                super::error::chain(&error),
                "check store.url, and that the database runs",
            )],
        }
    }

    async fn daemon_checks(&self) -> Vec<Check> {
        let Ok(incarnations) = self.store.incarnations().await else {
            return Vec::new();
        };
        let daemons = incarnations.iter().filter(|one| one.alive && one.delivers).count();
        vec![if daemons == 0 {
            Check::warning(
                "daemon",
                "none is alive".to_owned(),
                "start `redrive --daemon`: nothing is delivered without it",
            )
        } else {
            Check::fine("daemon", format!("{daemons} alive"))
        }]
    }
}
