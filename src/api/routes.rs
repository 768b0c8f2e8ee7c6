//! Which route does what.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::routing::{MethodFilter, get, on};

use crate::domain::scope::Scope;

use super::extract::LARGE;
use super::guard::Gate;
use super::{
    Shared, alerts, attach, dead, endpoints, events, events_many, expiring, export, guard, health, jobs, notifications,
    policies, problem, queues, records, runs, stream, types,
};

/// What a route needs; without a token nothing but what is open is answered.
pub(super) type Needs = Option<Scope>;

const OPEN: Needs = None;
const READ: Needs = Some(Scope::Read);
const PUBLISH: Needs = Some(Scope::Publish);
const OPERATE: Needs = Some(Scope::Operate);
const ADMIN: Needs = Some(Scope::Admin);

/// Method and path of every route, with the scope that it needs.
pub(super) fn scopes() -> Vec<(&'static str, &'static str, Needs)> {
    served().list
}

/// All routes behind their guard.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    let served = served();
    let needs = served
        .list
        .iter()
        .map(|(method, path, needs)| ((method.to_uppercase(), *path), *needs));
    let gate = Arc::new(Gate::new(Arc::clone(&shared), needs.collect()));
    served
        .router
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(DefaultBodyLimit::max(LARGE))
        .layer(axum::middleware::from_fn_with_state(gate, guard::check))
        .with_state(shared)
}

/// What is served to everybody: whether the process lives and delivers and, if so configured, its numbers.
pub(super) fn probes(shared: Arc<Shared>, metrics: bool) -> Router {
    let router = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready_or_not));
    let router = if metrics {
        router.route("/metrics", get(health::metrics))
    } else {
        router
    };
    router
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .with_state(shared)
}

/// Routes, with the list that the description is compared with.
struct Served {
    router: Router<Arc<Shared>>,
    list: Vec<(&'static str, &'static str, Needs)>,
}

impl Served {
    fn route<H, T>(mut self, method: &'static str, path: &'static str, needs: Needs, handler: H) -> Self
    where
        H: Handler<T, Arc<Shared>>,
        T: 'static,
    {
        let filter = match method {
            "get" => MethodFilter::GET,
            "delete" => MethodFilter::DELETE,
            "patch" => MethodFilter::PATCH,
            "put" => MethodFilter::PUT,
            _ => MethodFilter::POST,
        };
        self.router = self.router.route(path, on(filter, handler));
        self.list.push((method, path, needs));
        self
    }
}

fn served() -> Served {
    let served = Served {
        router: Router::new(),
        list: Vec::new(),
    };
    about_the_program(of_events(of_delivery(served)))
}

fn of_delivery(served: Served) -> Served {
    served
        .route("post", "/v1/notifications", PUBLISH, notifications::publish)
        .route("post", "/v1/executions/{id}/end", PUBLISH, notifications::end)
        .route("post", "/v1/redeliver", OPERATE, endpoints::redeliver)
        .route("get", "/v1/queues", READ, queues::list)
        .route("get", "/v1/queues/{name}", READ, queues::show)
        .route("delete", "/v1/queues/{name}", OPERATE, queues::delete)
        .route("get", "/v1/queues/{name}/why", READ, queues::why)
        .route("post", "/v1/queues/{name}/pause", OPERATE, queues::pause)
        .route("post", "/v1/queues/{name}/resume", OPERATE, queues::resume)
        .route("post", "/v1/queues/{name}/purge", OPERATE, queues::purge)
        .route("post", "/v1/queues/{name}/rescue", OPERATE, queues::rescue)
        .route("post", "/v1/queues/{name}/browse", OPERATE, queues::browse)
        .route("get", "/v1/queue-name", READ, queues::named)
        .route("post", "/v1/vhost/make", ADMIN, queues::make_vhost)
        .route("get", "/v1/endpoints", READ, endpoints::list)
        .route("post", "/v1/endpoints/test", OPERATE, endpoints::test)
        .route("get", "/v1/endpoints/disable", READ, endpoints::disable_plan)
        .route("post", "/v1/endpoints/disable", OPERATE, endpoints::disable)
        .route("post", "/v1/endpoints/pace", OPERATE, endpoints::pace)
        .route("post", "/v1/endpoints/pause", OPERATE, endpoints::pause)
        .route("post", "/v1/endpoints/resume", OPERATE, endpoints::resume)
        .route("get", "/v1/policies", READ, policies::show)
        .route("put", "/v1/policies", ADMIN, policies::set)
        .route("delete", "/v1/policies", ADMIN, policies::unset)
        .route("get", "/v1/policies/history", READ, policies::history)
        .route("post", "/v1/policies/preview", READ, policies::preview)
        .route("post", "/v1/policies/restore", ADMIN, policies::restore)
        .route("get", "/v1/expiring", READ, expiring::list)
        .route("get", "/v1/expiring/saves", READ, expiring::saves)
        .route("post", "/v1/expiring/save", OPERATE, expiring::save)
        .route("post", "/v1/expiring/purge", OPERATE, expiring::purge)
        .route("post", "/v1/expiring/restore", OPERATE, expiring::restore)
        .route("post", "/v1/expiring/extend", OPERATE, expiring::extend)
        .route("get", "/v1/retries", READ, records::retries)
        .route("get", "/v1/rates", READ, records::rates)
        .route("get", "/v1/attempts", READ, records::attempts)
        .route("get", "/v1/audit", READ, records::audit)
        .route("get", "/v1/audit/verify", READ, records::audit_verify)
        .route("get", "/v1/doctor", READ, records::doctor)
        .route("get", "/v1/handover", READ, records::handover)
        .route("post", "/v1/alerts/{name}/test", OPERATE, alerts::test)
        .route("get", "/v1/dead", READ, dead::list)
        .route("get", "/v1/dead/groups", READ, dead::groups)
        .route("get", "/v1/dead/queues", READ, dead::queues)
        .route("get", "/v1/dead/compare", READ, dead::compare)
        .route("get", "/v1/dead/export", READ, export::dead)
        .route("get", "/v1/dead/{id}", READ, dead::show)
        .route("post", "/v1/dead/redrive", OPERATE, runs::redrive)
        .route("post", "/v1/dead/discard", OPERATE, runs::discard)
        .route("post", "/v1/dead/restore", OPERATE, runs::restore)
        .route("post", "/v1/dead/patch", OPERATE, runs::patch)
        .route("patch", "/v1/dead/{id}", OPERATE, runs::edit)
        .route("post", "/v1/queues/{name}/move", OPERATE, runs::move_queue)
        .route("post", "/v1/queues/{name}/skip", OPERATE, runs::skip)
        .route("get", "/v1/jobs", READ, jobs::list)
        .route("post", "/v1/jobs", OPERATE, jobs::submit)
        .route("get", "/v1/jobs/{id}", READ, jobs::show)
        .route("post", "/v1/jobs/{id}/messages", OPERATE, jobs::publish)
        .route("get", "/v1/runs", READ, runs::list)
        .route("get", "/v1/runs/{id}", READ, runs::show)
        .route("post", "/v1/runs/{id}/pause", OPERATE, runs::pause)
        .route("post", "/v1/runs/{id}/resume", OPERATE, runs::resume)
        .route("post", "/v1/runs/{id}/cancel", OPERATE, runs::cancel)
}

fn of_events(served: Served) -> Served {
    served
        .route("post", "/v1/types/{type}/events", PUBLISH, events::push)
        .route("get", "/v1/types/{type}/events", READ, events::list)
        .route("get", "/v1/types/{type}/events/{reference}", READ, events::show)
        .route("delete", "/v1/types/{type}/events/{reference}", OPERATE, events::remove)
        .route(
            "post",
            "/v1/types/{type}/events/{reference}/retry",
            OPERATE,
            events::retry,
        )
        .route(
            "post",
            "/v1/types/{type}/events/{reference}/reschedule",
            OPERATE,
            events::reschedule,
        )
        .route("get", "/v1/events", READ, events::search)
        .route("get", "/v1/events/counts", READ, events::counts)
        .route("post", "/v1/events/retry", OPERATE, events_many::retry)
        .route("post", "/v1/events/reschedule", OPERATE, events_many::reschedule)
        .route("post", "/v1/events/cancel", OPERATE, events_many::cancel)
        .route("get", "/v1/types", READ, types::list)
        .route("get", "/v1/types/{type}", READ, types::show)
        .route("put", "/v1/types/{type}", ADMIN, types::set)
        .route("get", "/v1/types/{type}/subscriptions", READ, types::subscriptions)
        .route("post", "/v1/types/{type}/subscriptions", ADMIN, types::subscribe)
        .route("delete", "/v1/types/{type}/subscriptions", ADMIN, types::unsubscribe)
        .route("post", "/v1/types/{type}/claims", OPERATE, types::claim)
        .route("get", "/v1/types/{type}/claims/{claim}", READ, types::claimed)
        .route("patch", "/v1/types/{type}/claims/{claim}", OPERATE, types::renew)
        .route("delete", "/v1/types/{type}/claims/{claim}", OPERATE, types::release)
}

fn about_the_program(served: Served) -> Served {
    served
        .route("post", "/v1/attach/ask", READ, attach::ask)
        .route("post", "/v1/attach/plan", READ, attach::plan)
        .route("post", "/v1/attach/execute", OPERATE, attach::execute)
        .route("post", "/v1/attach/reveal", OPERATE, attach::reveal)
        .route("post", "/v1/attach/look", READ, attach::look)
        .route("get", "/v1/attach/stream", READ, attach::follow)
        .route("get", "/v1/events/stream", READ, stream::follow)
        .route("get", "/healthz", OPEN, health::alive)
        .route("get", "/readyz", OPEN, health::ready)
        .route("get", "/metrics", READ, health::metrics)
        .route("get", "/openapi.json", READ, health::describe)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::openapi;

    #[test]
    fn the_description_names_exactly_the_routes_that_are_served() {
        let described = openapi::document();
        let described: BTreeSet<(String, String)> = described["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().unwrap();
                methods.keys().map(move |method| (method.clone(), path.clone()))
            })
            .collect();
        let served: BTreeSet<(String, String)> = served()
            .list
            .iter()
            // What redrive alone asks redrive is no contract.
            .filter(|(_, path, _)| !path.starts_with("/v1/attach/"))
            .map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()))
            .collect();
        assert_eq!(described, served);
    }
}
