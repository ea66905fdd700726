//! Where a hub is: in memory, or a real API server with its controllers.

use std::future::poll_fn;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use bytes::Bytes;
use chandlery_simulator::faults::AnswerBody;
use chandlery_simulator::{Settings, Simulator};
use chandlery_tests::Cluster;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, MutexGuard};
use tower::{BoxError, Service};

/// Where a test is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    InMemory,
    OnARealServer,
}

/// What requests are sent to. The user is who may do everything.
#[derive(Clone)]
pub(crate) enum Server {
    InMemory(Simulator),
    Real(Client),
}

/// Requests to the real server run here: tests wait for them without letting anything else run.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static REAL: LazyLock<(Cluster, Client)> = LazyLock::new(|| {
    // It blocks, which a thread that runs a test must not.
    let started = std::thread::spawn(|| {
        let cluster = Cluster::start("claims");
        let kubeconfig = Kubeconfig::from_yaml(cluster.plane.kubeconfig_yaml()).unwrap();
        let client = RUNTIME.block_on(async {
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            Client::try_from(config).unwrap()
        });
        (cluster, client)
    });
    started.join().unwrap()
});
static TURN: Mutex<()> = Mutex::const_new(());

impl Place {
    /// The real server has one hub: whoever plays there is alone. In memory everybody has one of his own.
    pub(crate) async fn turn(self) -> Option<MutexGuard<'static, ()>> {
        match self {
            Place::InMemory => None,
            Place::OnARealServer => Some(TURN.lock().await),
        }
    }

    pub(crate) fn server(self) -> Server {
        match self {
            Place::InMemory => Server::InMemory(Simulator::new(Settings::default())),
            Place::OnARealServer => Server::Real(REAL.1.clone()),
        }
    }
}

impl Server {
    /// Sends a request of the administrator's and waits for the answer.
    pub(crate) fn send(&self, method: &Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let kind = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(Body::from(body)).unwrap();
        let mut server = self.clone();
        let (status, bytes) = futures::executor::block_on(async {
            poll_fn(|context| server.poll_ready(context)).await.unwrap();
            let response = server.call(request).await.unwrap();
            let status = response.status().as_u16();
            (status, response.into_body().collect().await.unwrap().to_bytes())
        });
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// A copy of the world where there can be one; a real server is what it is.
    pub(crate) fn copy(&self) -> Self {
        match self {
            Server::InMemory(simulator) => Server::InMemory(simulator.fork()),
            Server::Real(client) => Server::Real(client.clone()),
        }
    }

    /// Takes away whatever a test has left in these collections.
    pub(crate) fn wipe(&self, collections: &[String]) {
        for collection in collections {
            let (_, list) = self.send(&Method::GET, collection, None);
            for object in list["items"].as_array().into_iter().flatten() {
                let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
                let nobody_waits = json!({"metadata": {"finalizers": null}});
                self.send(&Method::PATCH, &path, Some(&nobody_waits));
                self.send(&Method::DELETE, &path, Some(&json!({"gracePeriodSeconds": 0})));
            }
        }
    }
}

impl Service<Request<Body>> for Server {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.clone() {
            Server::InMemory(mut simulator) => Box::pin(async move {
                let response = simulator.call(request).await?;
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            }),
            Server::Real(client) => Box::pin(async move {
                let answered = RUNTIME.spawn(async move {
                    let response = client.send(request).await?;
                    let (head, body) = response.into_parts();
                    Ok::<_, BoxError>((head, body.collect().await?.to_bytes()))
                });
                let (head, body): (_, Bytes) = answered.await??;
                let body = http_body_util::Full::new(body).map_err(|never| match never {});
                Ok(Response::from_parts(head, body.boxed_unsync()))
            }),
        }
    }
}
