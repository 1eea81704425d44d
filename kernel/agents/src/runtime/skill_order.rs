//! The order of the active skills in a prompt.

/// One active skill and the skills that it is ordered against.
pub(super) struct OrderedSkill<'s> {
    pub(super) id: &'s str,
    /// The skills that come after it.
    pub(super) precedes: &'s [String],
    /// The skills that come before it.
    pub(super) follows: &'s [String],
}

/// Returns the positions of the skills in the order of their declarations; skills without one keep
/// theirs. Of a cycle, the first skill comes first.
pub(super) fn order_skills(skills: &[OrderedSkill<'_>]) -> Vec<usize> {
    let names = |list: &[String], id: &str| list.iter().any(|named| named == id);
    let is_before = |one: &OrderedSkill<'_>, other: &OrderedSkill<'_>| {
        one.id != other.id && (names(one.precedes, other.id) || names(other.follows, one.id))
    };
    let mut remaining: Vec<usize> = (0..skills.len()).collect();
    let mut order = Vec::with_capacity(skills.len());
    while !remaining.is_empty() {
        let is_ready = |at: &usize| {
            let mut others = remaining.iter().filter(|other| *other != at);
            !others.any(|other| is_before(&skills[*other], &skills[*at]))
        };
        let next = remaining.iter().position(is_ready).unwrap_or(0);
        order.push(remaining.remove(next));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Orders skills, each with `<` and the skills after it or `>` and those before it.
    fn order(skills: &str) -> String {
        let parsed: Vec<_> = skills
            .split_whitespace()
            .map(|text| {
                let list = |sign| {
                    let ids = text.split_once(sign).map(|(_, ids)| ids.split(','));
                    ids.into_iter().flatten().map(str::to_owned).collect::<Vec<_>>()
                };
                let id = text.split(['<', '>']).next().unwrap_or_default();
                (id, list('<'), list('>'))
            })
            .collect();
        let skills: Vec<_> = parsed
            .iter()
            .map(|(id, precedes, follows)| OrderedSkill { id, precedes, follows })
            .collect();
        order_skills(&skills).iter().map(|at| skills[*at].id).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn declarations_order_and_others_stay() {
        assert_eq!(order(""), "");
        assert_eq!(order("c a b"), "c a b");
        assert_eq!(order("a b<a c"), "b a c");
        assert_eq!(order("a>c b c"), "b c a");
        assert_eq!(order("a>b b>c c"), "c b a");
        assert_eq!(order("a b c<a,b"), "c a b");
        // Neither an absent skill nor the skill itself has an order.
        assert_eq!(order("a>x b<y,b"), "a b");
    }

    #[test]
    fn cycle_keeps_all_skills() {
        assert_eq!(order("a>b b>a"), "a b");
        assert_eq!(order("x a>b b>c c>a y"), "x y a c b");
    }
}
