//! Encryption to a public key: HPKE (RFC 9180) in base mode, single-shot.

use super::Header;
use crate::hash::TaggedHash;
use crate::node_key::{Kem, SealingKey};
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::rand_core::CryptoRng;
use hpke::{Deserializable as _, HpkeError, OpModeR, OpModeS, Serializable as _};
use hpke::{single_shot_open, single_shot_seal_with_rng};
use zeroize::Zeroizing;

/// Bytes of an encapsulated X25519 key.
const ENCAPSULATED_BYTES: usize = 32;

/// The context that a ciphertext is bound to: `info` is the ceremony, `aad` the header.
pub(super) struct Binding {
    pub(super) info: Vec<u8>,
    pub(super) aad: Vec<u8>,
}

impl Binding {
    pub(super) fn of(header: &Header) -> Self {
        Self {
            info: TaggedHash::new("gateway/seal/hpke/v1").bytes(&header.ceremony).finish().to_vec(),
            aad: header.hash("gateway/seal/header/v1").finish().to_vec(),
        }
    }
}

/// Returns `encapsulated key ‖ ciphertext`. The ephemeral key comes from `rng`, which must be fresh for every message.
pub(super) fn encrypt(
    to: &SealingKey,
    binding: &Binding,
    plaintext: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<Vec<u8>, HpkeError> {
    let Binding { info, aad } = binding;
    let (key, ciphertext) = single_shot_seal_with_rng::<ChaCha20Poly1305, HkdfSha256, Kem>(
        &OpModeS::Base,
        to,
        info,
        plaintext,
        aad,
        rng,
    )?;
    Ok([key.to_bytes().as_slice(), &ciphertext].concat())
}

/// Decrypts `encapsulated key ‖ ciphertext`; `None` if it was sealed to another key or binding, or altered.
pub(super) fn decrypt(
    secret: &<Kem as hpke::Kem>::PrivateKey,
    binding: &Binding,
    sealed: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let (key, ciphertext) = sealed.split_at_checked(ENCAPSULATED_BYTES)?;
    let key = <Kem as hpke::Kem>::EncappedKey::from_bytes(key).ok()?;
    let Binding { info, aad } = binding;
    single_shot_open::<ChaCha20Poly1305, HkdfSha256, Kem>(&OpModeR::Base, secret, &key, info, ciphertext, aad)
        .ok()
        .map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hpke::Kem as _;
    use hpke::rand_core::{TryCryptoRng, TryRng};
    use std::convert::Infallible;

    /// Returns the vector's `ikmE`, once.
    struct Once(Option<Vec<u8>>);

    impl TryRng for Once {
        type Error = Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            panic!("not used by HPKE")
        }
        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            panic!("not used by HPKE")
        }
        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
            bytes.copy_from_slice(&self.0.take().unwrap());
            Ok(())
        }
    }

    impl TryCryptoRng for Once {}

    /// RFC 9180 appendix A.2.1, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode, first encryption.
    #[test]
    fn rfc_9180_vector_seals_and_opens() {
        let bytes = |text: &str| hex::decode(text).unwrap();
        let (_, from_ikm) =
            Kem::derive_keypair(&bytes("1ac01f181fdf9f352797655161c58b75c656a6cc2716dcb66372da835542e1df"));
        let secret = bytes("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb");
        let secret = <Kem as hpke::Kem>::PrivateKey::from_bytes(&secret).unwrap();
        let public = Kem::sk_to_pk(&secret);
        assert_eq!(public, from_ikm);
        assert_eq!(
            hex::encode(public.to_bytes()),
            "4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a"
        );
        let binding =
            Binding { info: bytes("4f6465206f6e2061204772656369616e2055726e"), aad: bytes("436f756e742d30") };
        let plaintext = bytes("4265617574792069732074727574682c20747275746820626561757479");
        let sealed = bytes(
            "1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a\
             1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28",
        );
        let mut once = Once(Some(bytes("909a9b35d3dc4713a5e72a4da274b55d3d3821a37e5d099e74a647db583a904b")));
        assert_eq!(encrypt(&public, &binding, &plaintext, &mut once).unwrap(), sealed);
        assert_eq!(*decrypt(&secret, &binding, &sealed).unwrap(), plaintext);
    }
}
