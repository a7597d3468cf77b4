//! The rho that a run declares for its pairs of counters.

use tickscope_bracket::{Rho, RhoOrigin};
use tickscope_store::{Manifest, Node, Pair, RhoKind};
use tickscope_tick::Label;

use crate::error::Error;

/// The rho that the run declared between its nodes' counters.
pub fn run_rho(manifest: &Manifest) -> Result<Rho, Error> {
    let others = manifest.nodes.iter().map(Node::domain).filter(|domain| *domain != manifest.reference);
    let pair = |domain| Pair { reference: manifest.reference.clone(), domain };
    let declared = others.map(|domain| declared_for(manifest, &pair(domain))).find_map(Result::transpose);
    declared.unwrap_or(Ok((Rho::default(), String::new()))).map(|(rho, _)| rho)
}

/// The rho that holds for one pair of domains.
pub(crate) fn rho_of(manifest: &Manifest, pair: &Pair) -> Result<Rho, Error> {
    Ok(declared_for(manifest, pair)?.map_or(Rho::default(), |(rho, _)| rho))
}

/// The rho that the run declared for a pair of domains, in whichever order it names them, and where that came from.
pub(crate) fn declared_for(manifest: &Manifest, pair: &Pair) -> Result<Option<(Rho, String)>, Error> {
    let of = |reference: &Label, domain: &Label| {
        let declared_twice = manifest.rho.iter().filter(|rho| rho.reference == *reference && rho.domain == *domain);
        let found = declared_twice.max_by_key(|rho| rho.ppb); // the narrower one may be the wrong one
        found.map(|rho| Ok::<_, Error>((declared(rho)?, rho.origin.clone()))).transpose()
    };
    let found = of(&pair.reference, &pair.domain)?;
    let Some((reversed, origin)) = of(&pair.domain, &pair.reference)? else { return Ok(found) };
    let rho = if is_default(reversed) { reversed } else { of_the_inverse(reversed)? };
    let reversed = (rho, format!("{origin}, declared for {} against {}", pair.reference, pair.domain));
    // Whatever somebody declared rather than a default; of two the larger, for the narrower may be the wrong one.
    let weight = |rho: Rho| (!is_default(rho), rho.ppb());
    Ok(found.filter(|(found, _)| weight(*found) >= weight(rho)).or(Some(reversed)))
}

/// Returns whether nobody declared it.
pub(crate) fn is_default(rho: Rho) -> bool {
    rho.origin() == RhoOrigin::Default
}

/// A rho that holds for the inverse of every map that `rho` holds for: the inverse of a rate within `1 ± rho` lies
/// within `1 ± rho / (1 - rho)`; rounded up.
fn of_the_inverse(rho: Rho) -> Result<Rho, Error> {
    const BILLION: u64 = 1_000_000_000;
    let ppb = u64::from(rho.ppb());
    let ppb = (ppb * BILLION).div_ceil(BILLION - ppb);
    Rho::declared_ppb(u32::try_from(ppb).map_err(Error::work)?).map_err(Error::work)
}

/// A preset keeps its name as long as the number next to it is the preset's.
pub(crate) fn declared(rho: &tickscope_store::RhoDeclaration) -> Result<Rho, Error> {
    let named = match rho.kind() {
        RhoKind::Default => Some(Rho::default()),
        RhoKind::Preset => rho.origin.parse::<Rho>().ok(),
        _ => None,
    };
    match named {
        Some(named) if u64::from(named.ppb()) == rho.ppb => Ok(named),
        _ => {
            // More than 32 bits are more than any rho: refused with the same words.
            let ppb = u32::try_from(rho.ppb).ok().and_then(|ppb| Rho::declared_ppb(ppb).ok());
            ppb.ok_or_else(|| {
                let (domain, reference, most, found) = (&rho.domain, &rho.reference, Rho::MOST_PPB, rho.ppb);
                Error::work(format!(
                    "run.json: expected a rho of {domain} against {reference} of at most {most} ppb, found {found}. \
                     Restore the file, or mend its rho"
                ))
            })
        }
    }
}
