//! Shamir secret sharing: polynomials, commitments to them, Lagrange coefficients.
//!
//! The value for participant `i` is at `x = i + 1`, its FROST identifier; the secret is at `x = 0`.

use std::collections::{BTreeMap, BTreeSet};

use frost_core::{Element, Field, Group, Scalar};
use rand_core::CryptoRngCore;
use zeroize::Zeroizing;

use crate::ThresholdError;
use crate::suite::{ScalarField, Suite, identifier, scalar, unexpected};

/// A secret polynomial, constant term first.
pub(crate) struct Polynomial<C: Suite>(Zeroizing<Vec<Scalar<C>>>);

impl<C: Suite> Polynomial<C> {
    /// A random polynomial with this constant term, of degree `coefficients − 1`.
    pub(crate) fn random(constant: &Scalar<C>, coefficients: u16, rng: &mut impl CryptoRngCore) -> Self {
        // Allocated in full: growing would leave a copy of the secret in freed memory.
        let mut terms = Zeroizing::new(Vec::with_capacity(coefficients.into()));
        terms.push(*constant);
        terms.extend((1..coefficients).map(|_| ScalarField::<C>::random(rng)));
        Self(terms)
    }

    /// The coefficients times the generator.
    pub(crate) fn commitments(&self) -> Vec<Element<C>> {
        self.0.iter().map(C::generator_times).collect()
    }

    /// The coefficients, constant term first. The caller wipes them.
    pub(crate) fn coefficients(&self) -> Vec<Scalar<C>> {
        self.0.to_vec()
    }

    /// The value at the participant's x.
    pub(crate) fn at(&self, participant: u16) -> Result<Zeroizing<Scalar<C>>, ThresholdError> {
        let x = x::<C>(participant)?;
        let value = self.0.iter().rev().fold(ScalarField::<C>::zero(), |sum, term| sum * x + *term);
        Ok(Zeroizing::new(value))
    }
}

/// The value at the participant's x times the generator, from the coefficients times the generator.
pub(crate) fn evaluate<C: Suite>(commitments: &[Element<C>], participant: u16) -> Element<C> {
    let x = u32::from(participant) + 1;
    commitments.iter().rev().fold(C::Group::identity(), |sum, term| multiple::<C>(sum, x) + *term)
}

/// Double-and-add over the 17 bits of the factor, which is public; faster than multiplying by a 256-bit scalar.
fn multiple<C: Suite>(element: Element<C>, factor: u32) -> Element<C> {
    let bits = (0..u32::BITS - factor.leading_zeros()).rev().map(|bit| factor >> bit & 1 == 1);
    bits.fold(C::Group::identity(), |sum, bit| if bit { sum + sum + element } else { sum + sum })
}

/// The Lagrange coefficients of exactly these holders, by holder: the sum of the holders' values times their coefficients is the
/// value of `target`, or the secret if that is `None`.
pub(crate) fn lagrange<C: Suite>(
    holders: &BTreeSet<u16>,
    target: Option<u16>,
) -> Result<BTreeMap<u16, Scalar<C>>, ThresholdError> {
    let target = target.map_or(Ok(ScalarField::<C>::zero()), x::<C>)?;
    let mut coefficients = BTreeMap::new();
    for &holder in holders {
        let here = x::<C>(holder)?;
        let (mut numerator, mut denominator) = (ScalarField::<C>::one(), ScalarField::<C>::one());
        for &other in holders.iter().filter(|other| **other != holder) {
            let there = x::<C>(other)?;
            numerator = numerator * (target - there);
            denominator = denominator * (here - there);
        }
        let inverse =
            ScalarField::<C>::invert(&denominator).map_err(|error| unexpected::<C>(error.into()))?;
        coefficients.insert(holder, numerator * inverse);
    }
    Ok(coefficients)
}

fn x<C: Suite>(participant: u16) -> Result<Scalar<C>, ThresholdError> {
    let out_of_range = ThresholdError::NotInRoster { participant };
    scalar::<C>(&identifier::<C>(participant)?.serialize()).ok_or(out_of_range)
}

/// The sum of group elements.
pub(crate) fn sum<C: Suite>(elements: impl Iterator<Item = Element<C>>) -> Element<C> {
    elements.fold(C::Group::identity(), |sum, element| sum + element)
}
