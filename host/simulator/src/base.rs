//! What was recorded of a real API server: read once per version of Kubernetes, then shared by all worlds.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use chandlery_merge::TypeTable;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::catalog::Resource;
use crate::structure::Structures;

/// The versions of Kubernetes that can be simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Release {
    /// Kubernetes 1.34.
    #[default]
    V1_34,
}

/// What a release knows before anybody made an object.
pub(crate) struct Base {
    /// The answer to `/version`.
    pub(crate) version: Value,
    /// `APIGroup`s in the server's order, without the core group.
    pub(crate) groups: Vec<Value>,
    /// The built-in resources, in the server's order.
    pub(crate) resources: Vec<Arc<Resource>>,
    /// Where in `resources` one is, by its group and plural.
    places: HashMap<SmolStr, HashMap<SmolStr, usize>>,
    /// The objects a cluster starts with.
    pub(crate) objects: Vec<Value>,
    /// The structures of the built-in kinds.
    pub(crate) types: TypeTable,
    /// How Go writes them.
    pub(crate) structures: Structures,
    openapi: &'static [u8],
}

#[derive(Default, Deserialize)]
struct Recorded {
    version: Value,
    groups: Vec<Value>,
    resources: Vec<Value>,
    objects: Vec<Value>,
    types: Option<TypeTable>,
    structures: Structures,
}

/// The published descriptions: paths, and the document behind each.
pub(crate) struct OpenApi {
    pub(crate) documents: BTreeMap<String, Bytes>,
}

#[derive(Deserialize)]
struct RecordedOpenApi {
    documents: BTreeMap<String, Box<RawValue>>,
}

static V1_34: LazyLock<Base> = LazyLock::new(|| {
    Base::read(
        include_bytes!("../data/1.34/base.json.zst"),
        include_bytes!("../data/1.34/openapi.json.zst"),
    )
});
static OPENAPI_1_34: LazyLock<OpenApi> = LazyLock::new(|| OpenApi::read(V1_34.openapi));

impl Release {
    pub(crate) fn base(self) -> &'static Base {
        match self {
            Self::V1_34 => &V1_34,
        }
    }

    pub(crate) fn openapi(self) -> &'static OpenApi {
        match self {
            Self::V1_34 => &OPENAPI_1_34,
        }
    }
}

impl Base {
    /// The data is part of the program and read in its tests: what cannot be read is empty, and the tests are red.
    fn read(base: &[u8], openapi: &'static [u8]) -> Self {
        let recorded: Option<Recorded> = zstd::decode_all(base)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let recorded = recorded.unwrap_or_default();
        let types = recorded.types.unwrap_or_default();
        let resources = Resource::built_in(&recorded.resources, &types);
        let mut places: HashMap<SmolStr, HashMap<SmolStr, usize>> = HashMap::new();
        for (place, resource) in resources.iter().enumerate() {
            let group = places.entry(resource.group.clone()).or_default();
            group.insert(resource.plural.clone(), place);
        }
        Self {
            resources,
            places,
            version: recorded.version,
            groups: recorded.groups,
            objects: recorded.objects,
            types,
            structures: recorded.structures,
            openapi,
        }
    }

    pub(crate) fn resource(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        let place = self.places.get(group)?.get(plural)?;
        self.resources.get(*place)
    }
}

impl OpenApi {
    fn read(bytes: &[u8]) -> Self {
        let recorded: Option<RecordedOpenApi> = zstd::decode_all(bytes)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let documents = recorded.map(|recorded| recorded.documents).unwrap_or_default();
        Self {
            documents: documents
                .into_iter()
                .map(|(path, document)| (path, Bytes::from(String::from(Box::<str>::from(document)))))
                .collect(),
        }
    }
}
