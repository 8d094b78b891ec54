use super::*;
use crate::cube::CubeError;
use crate::declare::DeclareError;
use crate::retire::RetireError;
use crate::store::root::Op;

/// These variants of a type, which must be all it has.
macro_rules! every {
    ($type:ident: $($variant:ident),* $(,)?) => {{
        let _ = |one: $type| match one {
            $($type::$variant => (),)*
        };
        [$($type::$variant),*]
    }};
}

fn kinds() -> [FaultKind; 14] {
    every!(
        FaultKind: Denied, ExpiredCredentials, NotFound, NoBucket, Throttled, Unavailable,
        CorruptLeaf, Rewritten, Declaration, WriteRefused, LeaseRefused, LeaseLost, Cancelled, Bug,
    )
}

/// A request that the store has answered with a fault of this kind.
fn answered(kind: FaultKind) -> Option<StoreError> {
    use object_store::Error as Answer;
    let path = String::new();
    let source = match kind {
        FaultKind::Denied => Answer::PermissionDenied {
            path,
            source: "AccessDenied".into(),
        },
        FaultKind::ExpiredCredentials => Answer::PermissionDenied {
            path,
            source: "ExpiredToken".into(),
        },
        FaultKind::NotFound => Answer::NotFound {
            path,
            source: "NoSuchKey".into(),
        },
        FaultKind::NoBucket => Answer::NotFound {
            path,
            source: "NoSuchBucket".into(),
        },
        FaultKind::Unavailable => Answer::AlreadyExists {
            path,
            source: "OperationAborted".into(),
        },
        FaultKind::WriteRefused => Answer::Precondition {
            path,
            source: "PreconditionFailed".into(),
        },
        _ => return None,
    };
    let error = StoreError {
        op: Op::Read,
        key: "zarr.json".to_owned(),
        root: "s3://bucket/hive".to_owned(),
        source: Box::new(source),
    };
    assert_eq!(error.kind(), kind);
    Some(error)
}

#[test]
fn a_fault_ends_every_command_in_the_same_way() {
    for kind in kinds() {
        let expected = match kind {
            FaultKind::Denied
            | FaultKind::ExpiredCredentials
            | FaultKind::Throttled
            | FaultKind::Unavailable
            | FaultKind::WriteRefused
            | FaultKind::Bug => Ending::Aborted,
            _ => Ending::Refused,
        };
        assert_eq!(kind.ending(), expected, "{kind}");
        let error = || answered(kind);
        let endings = [
            error().map(|error| Error::Store(error).ending()),
            error().map(|error| Error::Records(RecordError::List(error)).ending()),
            error().map(|error| DeclareError::Store(error).ending()),
            error().map(|error| DeclareError::Records(RecordError::Fetch(error)).ending()),
            error().map(|error| RetireError::Store(error).ending()),
            error().map(|error| RetireError::Verify(Error::Store(error)).ending()),
            error().map(|error| CubeError::Store(error).ending()),
            error().map(|error| {
                AbortReason::LeaseRefused(Arc::new(LeaseError::Store(error))).ending()
            }),
        ];
        for (case, ending) in endings.into_iter().flatten().enumerate() {
            assert_eq!(ending, expected, "{kind}, case {case}");
        }
    }
}

#[test]
fn a_wrong_address_is_refused_whatever_the_store_answers() {
    let root = || RootError::ReadOnly {
        url: "https://host/hive".to_owned(),
    };
    for ending in [
        Error::Root(root()).ending(),
        DeclareError::Root(root()).ending(),
        RetireError::Root(root()).ending(),
        CubeError::Root(root()).ending(),
    ] {
        assert_eq!(ending, Ending::Refused);
    }
    for error in kinds().into_iter().filter_map(answered) {
        let ending = ending_without_records(&RecordError::NotListable(error));
        assert_eq!(ending, Ending::Refused);
    }
}
