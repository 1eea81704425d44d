//! Dependencies between extensions: order, cycles, dependents of failed extensions.

use test_support::TestHome;

use crate::fixture::{KernelFixture, misbehaving};

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_are_loaded_first() {
    let home = misbehaving(TestHome::new(), "a", "depends_on: [c, {id: d, optional: true}]");
    let home = misbehaving(home, "b", "");
    let home = misbehaving(home, "c", "depends_on: [d]");
    let fixture = KernelFixture::boot(misbehaving(home, "d", "")).await;
    assert_eq!(fixture.loaded(), ["b", "d", "c", "a"]);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unorderable_extensions_are_all_reported() {
    let home = misbehaving(TestHome::new(), "chicken", "depends_on: [egg]");
    let home = misbehaving(home, "egg", "depends_on: [chicken]");
    let home = misbehaving(home, "typo", "depends_on: [wel]");
    let home = misbehaving(home, "off", "enabled: false");
    let home = misbehaving(home, "needs-off", "depends_on: [off, egg]");
    let home = misbehaving(home, "likes", "depends_on: [{id: gone, optional: true}]");
    let fixture = KernelFixture::boot(misbehaving(home, "well", "")).await;
    assert_eq!(fixture.loaded(), ["likes", "well"]);
    let hint = "hint: correct depends_on in the manifest, or install and enable what it names";
    let rejected = |id: &str, lines: &str| {
        assert_eq!(fixture.rejection(id), format!("plan: {lines}\n{hint}"));
    };
    rejected("chicken", "`chicken` depends on itself: chicken → egg → chicken");
    rejected("egg", "`egg` depends on itself: egg → chicken → egg");
    rejected(
        "typo",
        "`typo` depends on `wel` (line 4), which does not exist; did you mean `well`?",
    );
    rejected(
        "needs-off",
        "`needs-off` depends on `off` (line 4), which is disabled\n\
         `needs-off` depends on `egg` (line 4), which cannot be loaded",
    );
    let report = fixture.kernel.report();
    assert_eq!(report.disabled, ["off"]);
    assert_eq!(report.notes, ["`likes` optionally depends on `gone`, which does not exist"]);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_of_failed_extension_fail() {
    let agent = "id: guide\nname: Guide\ndepends_on: [middle]\nagent: {instructions: Guide.}\n";
    let home = misbehaving(TestHome::new(), "base", "config: {parts: {start: fail}}");
    let home = misbehaving(home, "middle", "depends_on: [base]");
    let home = misbehaving(home, "top", "depends_on: [middle]");
    let home = misbehaving(home, "likes", "depends_on: [{id: base, optional: true}]");
    let fixture = KernelFixture::boot(home.manifest("guide", agent)).await;
    assert_eq!(fixture.loaded(), ["likes"]);
    assert_eq!(fixture.rejection("base"), "start: start failed\nhint: try less");
    let with = |id: &str| {
        format!(
            "plan: depends on `{id}`, which could not be loaded\nhint: see `{id}` in: skillhost ext doctor"
        )
    };
    assert_eq!(fixture.rejection("middle"), with("base"));
    assert_eq!(fixture.rejection("top"), with("middle"));
    assert_eq!(fixture.rejection("guide"), with("middle"));
    fixture.kernel.shutdown().await;
}
