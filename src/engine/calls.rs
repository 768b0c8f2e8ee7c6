//! What services do, and is done at once: publish, end, push, claim, submit. Nothing is planned before.

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error;
use super::events::{Claim, ClaimRequest, Finished, Pushed};
use super::jobs::Job;
use super::{Ended, Engine, EngineError, NewNotification, Receipt, WriteGrant};
use crate::ambient;
use crate::domain::as_text;
use crate::domain::event::{EventType, NewEvent, Reference};
use crate::domain::id::ExecutionId;
use crate::domain::job::{JobId, JobPart, Lifetime};
use crate::domain::url::EndpointUrl;

/// What can be done at once.
pub trait Call: Serialize + DeserializeOwned + Send + 'static {
    /// What it is answered with.
    type Answer: Serialize + DeserializeOwned + Send + 'static;

    /// Its name, by which an attached process asks for it.
    const NAME: &'static str;

    /// What whoever asks has to be allowed.
    fn asks(&self) -> Asks<'_>;

    /// Does it: whoever asks does so through [`super::EngineHandle::call`].
    #[doc(hidden)]
    fn carried_out(
        self,
        engine: &Engine,
        grant: &WriteGrant,
    ) -> impl Future<Output = Result<Self::Answer, EngineError>> + Send;
}

/// What a call asks for, as far as it decides who may.
#[derive(Debug)]
pub enum Asks<'a> {
    /// A notification is published.
    ToPublish(&'a NewNotification),
    /// A sequence is ended.
    ToEnd(&'a ExecutionId, &'a EndpointUrl),
    /// An event is pushed.
    ToPush,
    /// Anything that an operator does.
    ToOperate,
}

/// A call that was sent by its name.
pub trait Named: Send {
    /// What whoever asks has to be allowed.
    fn asks(&self) -> Asks<'_>;

    /// Does it; the answer is JSON.
    fn carried_out<'a>(
        self: Box<Self>,
        engine: &'a Engine,
        grant: &'a WriteGrant,
    ) -> BoxFuture<'a, Result<Vec<u8>, EngineError>>;
}

impl<C: Call> Named for C {
    fn asks(&self) -> Asks<'_> {
        Call::asks(self)
    }

    fn carried_out<'a>(
        self: Box<Self>,
        engine: &'a Engine,
        grant: &'a WriteGrant,
    ) -> BoxFuture<'a, Result<Vec<u8>, EngineError>> {
        async move {
            let answer = Call::carried_out(*self, engine, grant).await?;
            ambient::beside(|| serde_json::to_vec(&answer)).map_err(|error| EngineError::Refused {
                why: format!("it is done, and the answer to {} cannot be written: {error}", C::NAME),
            })
        }
        .boxed()
    }
}

fn read<C: Call>(given: &[u8]) -> Result<Box<dyn Named>, EngineError> {
    Ok(Box::new(error::understood::<C>(C::NAME, given)?))
}

/// Each call is one entry: what is given with it, its answer, what it asks for, and who does it.
macro_rules! calls {
    ($call:ident, $engine:ident, $grant:ident; $(
        $(#[$doc:meta])*
        $name:ident { $($(#[$of:meta])* $given:ident: $type:ty,)* } -> $answer:ty, $asks:expr, { $by:expr }
    )+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Serialize, Deserialize)]
            pub struct $name {
                $($(#[$of])* pub $given: $type,)*
            }

            impl Call for $name {
                type Answer = $answer;

                const NAME: &'static str = stringify!($name);

                fn asks(&self) -> Asks<'_> {
                    let $call = self;
                    let _ = $call;
                    $asks
                }

                async fn carried_out(self, $engine: &Engine, $grant: &WriteGrant) -> Result<$answer, EngineError> {
                    let (Self { $($given),* }, _) = (self, $grant);
                    $by.await
                }
            }
        )+

        /// The call of this name with what is given. `None`: there is none of it.
        #[must_use]
        pub fn named(name: &str, given: &[u8]) -> Option<Result<Box<dyn Named>, EngineError>> {
            match name {
                $(<$name as Call>::NAME => Some(read::<$name>(given)),)+
                _ => None,
            }
        }
    };
}

calls! { call, engine, grant;
    /// Publishes a notification; answered when the broker has confirmed it.
    Publish {
        /// The notification.
        new: NewNotification,
    } -> Receipt, Asks::ToPublish(&call.new), { engine.publish(new) }
    /// Marks the end of a sequence.
    End {
        /// The execution.
        execution: ExecutionId,
        /// The URL.
        url: EndpointUrl,
    } -> Ended, Asks::ToEnd(&call.execution, &call.url), { engine.end(execution, url) }
    /// Pushes an event.
    PushEvent {
        /// The event.
        event: NewEvent,
    } -> Pushed, Asks::ToPush, { engine.event_push(event) }
    /// Claims events. `None`: there is nothing to claim.
    CreateClaim {
        /// Of which type, how many and for how long.
        request: ClaimRequest,
    } -> Option<Claim>, Asks::ToOperate, { engine.claim_create(&request) }
    /// Prolongs a claim.
    RenewClaim {
        /// The type of its events.
        event_type: EventType,
        /// Its id.
        claim: String,
        /// How long it lives from now on, in seconds.
        ttl_s: u64,
        /// How much longer its events live at least, in seconds.
        grace_s: Option<u64>,
    } -> Claim, Asks::ToOperate, { engine.claim_renew(&event_type, &claim, ttl_s, grace_s) }
    /// Gives the events of a claim back.
    ReleaseClaim {
        /// The type of its events.
        event_type: EventType,
        /// Its id.
        claim: String,
    } -> u64, Asks::ToOperate, { engine.claim_release(&event_type, &claim) }
    /// Ends a claimed event: it is done.
    FinishEvent {
        /// Its type.
        event_type: EventType,
        /// What it is about.
        reference: Reference,
        /// The claim that holds it.
        claim: String,
    } -> Finished, Asks::ToOperate, { engine.claim_done(&event_type, &reference, &claim) }
    /// Declares the queues of a new job.
    SubmitJob {
        /// Its id.
        id: JobId,
        /// How long they live unused.
        lifetime: Lifetime,
    } -> Job, Asks::ToOperate, { engine.job_submit(id, lifetime) }
    /// Sends a worker's message about its job; answered when the broker has confirmed it.
    PublishToJob {
        /// The job.
        id: JobId,
        /// Which of its queues.
        part: JobPart,
        /// The MIME type of the body.
        content_type: Option<String>,
        /// The body.
        #[serde(with = "as_text::bytes")]
        body: Bytes,
    } -> (), Asks::ToOperate, { engine.job_publish(&id, part, content_type, body) }
    /// Sends a test message to the receiver of an alert.
    TestAlert {
        /// The alert.
        name: String,
    } -> (), Asks::ToOperate, { engine.alert_test(&name, grant) }
}
