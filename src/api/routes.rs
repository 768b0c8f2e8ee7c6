//! Which route does what.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};

use super::extract::BODY_BYTES_MAX;
use super::{
    Shared, dead, endpoints, events, events_many, expiring, guard, health, notifications, policies, problem, queues,
    records, runs, types,
};

/// All routes behind their guard.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    served()
        .router
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared), guard::check))
        .with_state(shared)
}

/// Routes, with the list that the description is compared with.
struct Served {
    router: Router<Arc<Shared>>,
    list: Vec<(&'static str, &'static str)>,
}

impl Served {
    fn route<H, T>(mut self, method: &'static str, path: &'static str, handler: H) -> Self
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
        self.list.push((method, path));
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
        .route("post", "/v1/notifications", notifications::publish)
        .route("post", "/v1/executions/{id}/end", notifications::end)
        .route("post", "/v1/redeliver", endpoints::redeliver)
        .route("get", "/v1/queues", queues::list)
        .route("get", "/v1/queues/{name}", queues::show)
        .route("delete", "/v1/queues/{name}", queues::delete)
        .route("get", "/v1/queues/{name}/why", queues::why)
        .route("post", "/v1/queues/{name}/pause", queues::pause)
        .route("post", "/v1/queues/{name}/resume", queues::resume)
        .route("post", "/v1/queues/{name}/purge", queues::purge)
        .route("post", "/v1/queues/{name}/rescue", queues::rescue)
        .route("get", "/v1/endpoints", endpoints::list)
        .route("post", "/v1/endpoints/test", endpoints::test)
        .route("get", "/v1/endpoints/disable", endpoints::disable_plan)
        .route("post", "/v1/endpoints/disable", endpoints::disable)
        .route("get", "/v1/policies", policies::show)
        .route("put", "/v1/policies", policies::set)
        .route("delete", "/v1/policies", policies::unset)
        .route("get", "/v1/policies/history", policies::history)
        .route("post", "/v1/policies/preview", policies::preview)
        .route("post", "/v1/policies/restore", policies::restore)
        .route("get", "/v1/expiring", expiring::list)
        .route("get", "/v1/expiring/saves", expiring::saves)
        .route("post", "/v1/expiring/save", expiring::save)
        .route("post", "/v1/expiring/purge", expiring::purge)
        .route("post", "/v1/expiring/restore", expiring::restore)
        .route("post", "/v1/expiring/extend", expiring::extend)
        .route("get", "/v1/retries", records::retries)
        .route("get", "/v1/attempts", records::attempts)
        .route("get", "/v1/audit", records::audit)
        .route("get", "/v1/dead", dead::list)
        .route("get", "/v1/dead/groups", dead::groups)
        .route("get", "/v1/dead/{id}", dead::show)
        .route("post", "/v1/dead/redrive", runs::redrive)
        .route("post", "/v1/dead/discard", runs::discard)
        .route("post", "/v1/dead/restore", runs::restore)
        .route("patch", "/v1/dead/{id}", runs::edit)
        .route("post", "/v1/queues/{name}/move", runs::move_queue)
        .route("post", "/v1/queues/{name}/skip", runs::skip)
        .route("get", "/v1/runs", runs::list)
        .route("get", "/v1/runs/{id}", runs::show)
        .route("post", "/v1/runs/{id}/pause", runs::pause)
        .route("post", "/v1/runs/{id}/resume", runs::resume)
        .route("post", "/v1/runs/{id}/cancel", runs::cancel)
}

fn of_events(served: Served) -> Served {
    served
        .route("post", "/v1/types/{type}/events", events::push)
        .route("get", "/v1/types/{type}/events", events::list)
        .route("get", "/v1/types/{type}/events/{reference}", events::show)
        .route("delete", "/v1/types/{type}/events/{reference}", events::remove)
        .route("post", "/v1/types/{type}/events/{reference}/retry", events::retry)
        .route(
            "post",
            "/v1/types/{type}/events/{reference}/reschedule",
            events::reschedule,
        )
        .route("get", "/v1/events", events::search)
        .route("get", "/v1/events/counts", events::counts)
        .route("post", "/v1/events/retry", events_many::retry)
        .route("post", "/v1/events/reschedule", events_many::reschedule)
        .route("post", "/v1/events/cancel", events_many::cancel)
        .route("get", "/v1/types", types::list)
        .route("get", "/v1/types/{type}", types::show)
        .route("put", "/v1/types/{type}", types::set)
        .route("get", "/v1/types/{type}/subscriptions", types::subscriptions)
        .route("post", "/v1/types/{type}/subscriptions", types::subscribe)
        .route("delete", "/v1/types/{type}/subscriptions", types::unsubscribe)
        .route("post", "/v1/types/{type}/claims", types::claim)
        .route("get", "/v1/types/{type}/claims/{claim}", types::claimed)
        .route("patch", "/v1/types/{type}/claims/{claim}", types::renew)
        .route("delete", "/v1/types/{type}/claims/{claim}", types::release)
}

fn about_the_program(served: Served) -> Served {
    served
        .route("get", "/healthz", health::alive)
        .route("get", "/readyz", health::ready)
        .route("get", "/metrics", health::metrics)
        .route("get", "/openapi.json", health::describe)
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
            .map(|(method, path)| ((*method).to_owned(), (*path).to_owned()))
            .collect();
        assert_eq!(described, served);
    }
}
