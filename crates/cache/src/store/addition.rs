//! What a request brings: bytes that lie in it, or an upload that is complete.

use crate::api::{Body, Refusal};
use crate::upload::PieceList;

/// The bytes of a request: a value, or what is appended or prepended.
pub(super) enum Addition<'a> {
    Bytes(&'a [u8]),
    Owned(Vec<u8>),
    Pieces(PieceList),
}

impl Addition<'_> {
    pub(super) fn of(value: Body<'_>) -> Result<Addition<'_>, Refusal> {
        Ok(match value {
            Body::Bytes(bytes) => Addition::Bytes(bytes),
            Body::Upload(upload) => {
                assert_eq!(upload.missing(), 0, "an upload is stored when it is complete");
                match upload.finish()? {
                    Ok(bytes) => Addition::Owned(bytes),
                    Err(pieces) => Addition::Pieces(pieces),
                }
            }
        })
    }

    pub(super) fn slices(&self) -> Vec<&[u8]> {
        match self {
            Addition::Bytes(bytes) => vec![bytes],
            Addition::Owned(bytes) => vec![bytes],
            Addition::Pieces(pieces) => pieces.slices().collect(),
        }
    }
}
