//! Which servers come after a key's own, if that one cannot be asked: the order in which the scheme itself would go on. The
//! placement stays as it is, so every key is back with its server as soon as that one is.

use super::score::Highest;
use super::{Placement, Rule, ServerIndex};

impl Placement {
    /// The servers after `own`, each once, at most `count`.
    ///
    /// On a ring they are those of the next points, so the keys of one server go to many others; with rendezvous those of the
    /// next scores; with slots those of the next slots; otherwise the next of the list. Costs as much as building a small ring
    /// if `count` is large.
    pub fn others(&self, key: &[u8], own: ServerIndex, count: usize) -> Vec<ServerIndex> {
        let key = self.hashed(key);
        let mut found = vec![own];
        let wanted = count.saturating_add(1);
        let mut take = |server: ServerIndex| {
            if !found.contains(&server) {
                found.push(server);
            }
            found.len() < wanted
        };
        // `all` ends the walk when enough are found; each arm's list ends by itself.
        match &self.rule {
            Rule::Only => true,
            Rule::Slots(hash, slots) => {
                let first = hash(key) as usize % slots.len();
                let (before, from) = slots.split_at(first);
                from.iter().chain(before).all(|server| take(*server))
            }
            Rule::Ring(position, ring) => ring.onward(position.of(key)).all(take),
            Rule::Highest(highest) => by_score(highest, key).into_iter().all(take),
            Rule::Jump(servers) | Rule::Random(servers, _) => {
                let own = own.get() as u32;
                let mut list = (own..*servers).chain(0..own).map(ServerIndex::new);
                list.all(take)
            }
        };
        found.split_off(1)
    }
}

fn by_score(highest: &Highest, key: &[u8]) -> Vec<ServerIndex> {
    let mut scores = highest.scores(key);
    scores.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scores.into_iter().map(|(_, server)| server).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::placement::{Placement, Scheme, Server, Servers};

    fn servers(count: u16) -> Servers {
        let list = (0..count).map(|number| Server::new(format!("10.0.0.{number}"), 11211));
        Servers::new(list.collect()).expect("they differ")
    }

    #[test]
    fn every_scheme_goes_through_all_servers_once_beginning_after_the_keys_own() {
        for row in Scheme::all().iter().filter(|row| row.name != "vbucket") {
            let scheme: Scheme = row.name.parse().expect("it is in the table");
            for count in [1, 2, 5] {
                let placement = Placement::new(&servers(count), &scheme).expect("equal weights");
                for key in 0..50u32 {
                    let key = key.to_le_bytes();
                    let own = placement.place(&key);
                    let others = placement.others(&key, own, usize::MAX);
                    assert_eq!(others.len(), usize::from(count) - 1, "{}", row.name);
                    let all: BTreeSet<_> = others.iter().chain([&own]).collect();
                    assert_eq!(all.len(), usize::from(count), "{}", row.name);
                    let two = placement.others(&key, own, 2);
                    assert_eq!(two, others[..others.len().min(2)], "{}", row.name);
                }
            }
        }
    }

    /// As if the server were not on the ring: that is what makes it the next one.
    #[test]
    fn the_next_server_is_the_one_that_would_have_the_key_without_the_first() {
        for name in ["ring", "rendezvous", "ketama"] {
            let scheme: Scheme = name.parse().expect("it is in the table");
            let whole = servers(5);
            let placement = Placement::new(&whole, &scheme).expect("equal weights");
            for key in 0..500u32 {
                let key = key.to_le_bytes();
                let own = placement.place(&key);
                let mut rest = whole.list().to_vec();
                rest.remove(own.get());
                let rest = Servers::new(rest).expect("they differ");
                let without = Placement::new(&rest, &scheme).expect("equal weights").place(&key);
                let next = placement.others(&key, own, 1)[0];
                assert_eq!(rest.list()[without.get()], whole.list()[next.get()], "{name}");
            }
        }
    }
}
