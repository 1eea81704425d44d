//! `skillhost trust`: says that a home's extensions may be loaded.

use serde_json::json;
use skillhost_kernel::{Home, HomeSource, trust as record, trusted};

use crate::cli::TrustArgs;
use crate::exit;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn trust(session: &Session, args: &TrustArgs) -> Outcome {
    let output = session.output;
    if args.list {
        let homes = trusted(&session.environment)?;
        if output.json {
            output.object(&json!({ "trusted": homes }))?;
        } else {
            for home in &homes {
                output.line(home.display())?;
            }
        }
        return Ok(exit::OK);
    }
    let home = match &args.dir {
        Some(dir) => Home::at(&session.environment.current_dir.join(dir), HomeSource::Argument)?,
        None => session.home()?,
    };
    let new = record(&home, &session.environment)?;
    if output.json {
        output.object(&json!({ "home": home.root(), "new": new }))?;
    } else if new {
        output.line(format!("trusted {}", home.root().display()))?;
    } else {
        output.line(format!("{} was trusted already", home.root().display()))?;
    }
    Ok(exit::OK)
}
