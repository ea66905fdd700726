//! Where a remote's name leads is judged as an address in a kubeconfig is: each time a socket is opened, for a name may lead
//! elsewhere tomorrow. Whoever owns the name could else have the daemon talk to itself or to the cloud's metadata.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::{BoxError, Service};

use crate::kubeconfig::{KubeconfigError, Policy, judge_address};

/// Resolves names, and lets only those addresses through that a kubeconfig could have named.
#[derive(Clone)]
pub(crate) struct JudgingResolver<R = GaiResolver> {
    inner: R,
    policy: Option<Policy>,
}

impl JudgingResolver {
    /// By the system's resolver. Without a policy nothing is judged: for the hub, whose address nobody but the operator says.
    pub(crate) fn new(policy: Option<Policy>) -> Self {
        Self {
            inner: GaiResolver::new(),
            policy,
        }
    }
}

impl<R> Service<Name> for JudgingResolver<R>
where
    R: Service<Name>,
    R::Response: Iterator<Item = SocketAddr>,
    R::Error: Into<BoxError>,
    R::Future: Send + 'static,
{
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (text, policy) = (name.as_str().to_owned(), self.policy);
        let resolving = self.inner.call(name);
        Box::pin(async move {
            let found: Vec<SocketAddr> = resolving.await.map_err(Into::into)?.collect();
            let Some(policy) = policy else {
                return Ok(found.into_iter());
            };
            let mut refusal = None;
            let mut accepted = Vec::with_capacity(found.len());
            for address in found {
                match judge_address(address.ip(), policy) {
                    Ok(()) => accepted.push(address),
                    Err(error) => refusal = Some(error),
                }
            }
            match refusal {
                Some(KubeconfigError::ForbiddenAddress(address, why)) if accepted.is_empty() => {
                    Err(KubeconfigError::ForbiddenAddress(format!("{address} (where {text} leads)"), why).into())
                }
                // One address of several: a socket is opened to the others only.
                _ => Ok(accepted.into_iter()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn resolve(addresses: &[&str], policy: Option<Policy>) -> Result<Vec<String>, BoxError> {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let inner = tower::service_fn(move |_: Name| {
            let found = addresses.clone().into_iter();
            async move { Ok::<_, BoxError>(found) }
        });
        let mut resolver = JudgingResolver { inner, policy };
        let found = resolver.call("east.example".parse().unwrap()).await?;
        Ok(found.map(|address| address.to_string()).collect())
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_refused_address_only_is_refused_with_both() {
        for address in [
            "127.0.0.1:0",
            "[::1]:0",
            "169.254.169.254:0",
            "[::ffff:169.254.169.254]:0",
            "100.100.100.200:0",
        ] {
            let error = resolve(&[address], Some(Policy::default())).await.unwrap_err();
            let error = error.downcast_ref::<KubeconfigError>().unwrap();
            assert_eq!(error.reason(), "KubeconfigForbiddenAddress");
            assert!(error.to_string().contains("(where east.example leads)"), "{error}");
        }
    }

    #[tokio::test]
    async fn of_several_addresses_the_refused_ones_are_left_out() {
        let found = resolve(&["127.0.0.1:0", "10.0.0.1:0"], Some(Policy::default())).await;
        assert_eq!(found.unwrap(), ["10.0.0.1:0"]);
    }

    #[tokio::test]
    async fn loopback_is_let_through_where_the_operator_says_so_and_all_where_nobody_judges() {
        let loopback = Some(Policy {
            allow_loopback: true,
            ..Policy::default()
        });
        assert_eq!(resolve(&["127.0.0.1:0"], loopback).await.unwrap().len(), 1);
        assert!(resolve(&["169.254.169.254:0"], loopback).await.is_err());
        assert_eq!(resolve(&["169.254.169.254:0"], None).await.unwrap().len(), 1);
    }
}
