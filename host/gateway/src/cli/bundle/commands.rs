//! The words of `operation-gateway bundle …`.

use clap::{Arg, ArgAction, Command, value_parser};

/// Evaluations of one vector that `bench` times.
const ROUNDS: &str = "1000";

/// Seconds that `activate` waits for a gateway.
const WAIT_SECONDS: &str = "30";

/// Every subcommand.
pub(crate) fn command() -> Command {
    Command::new("bundle")
        .about("Make, check, sign and activate policy bundles")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(
            "DIR is a bundle's folder, the source folder of a policy, or an archive that `pack` wrote.",
        )
        .subcommands(author().into_iter().chain(reviewer()).chain(operator()))
}

fn author() -> [Command; 8] {
    [
        leaf("new", "Write a policy that builds and passes its tests as it is")
            .arg(word("NAME", "Lower case letters, digits and `-`"))
            .arg(option("into", "DIR", "The folder to make it in, instead of this one")),
        leaf("build", "Build the component and complete the manifest; the same bytes from any folder")
            .arg(word("DIR", "The policy's sources: cargo's folder, or one below it"))
            .arg(option("into", "BUNDLE", "The bundle's folder, instead of `bundle` in the sources"))
            .arg(option("package", "NAME", "The cdylib, where the sources have several"))
            .arg(flag("locked", "Fail when Cargo.lock would have to change"))
            .arg(flag("check", "Write nothing; fail when the bundle has another component"))
            .arg(
                option(
                    "component",
                    "FILE",
                    "Take this component, built by another tool, instead of building",
                )
                .conflicts_with_all(["package", "locked", "check"]),
            ),
        leaf("complete", "Complete the manifest of a bundle whose component another tool built")
            .arg(bundle()),
        leaf("test", "Run a policy's own tests and every vector; say which declared codes no vector shows")
            .arg(bundle())
            .arg(flag("strict", "Fail when there is such a code")),
        leaf("bench", "Measure fuel, memory and time of every vector").arg(bundle()).arg(
            option("rounds", "N", "Evaluations of each vector")
                .default_value(ROUNDS)
                .value_parser(value_parser!(usize)),
        ),
        Command::new("key").about("Keys that sign bundles").subcommand_required(true).subcommand(
            leaf("new", "Make a key, readable by its owner alone; print its public half")
                .arg(word("FILE", "The key file"))
                .arg(option("roots", "FILE", "Also write trust roots that believe this key alone"))
                .arg(option("role", "ROLE", "Its role in them").default_value("author")),
        ),
        leaf("sign", "Sign a bundle that would be activated but for its signatures")
            .arg(bundle())
            .arg(option("key", "FILE", "The key file").required(true)),
        Command::new("wit").about("Print the contract between the gateway and a policy"),
    ]
}

fn reviewer() -> [Command; 5] {
    [
        leaf("verify", "Say whether a deployment with these trust roots would activate a bundle")
            .arg(bundle())
            .arg(trust())
            .arg(pin()),
        leaf("inspect", "Print everything a bundle says of itself; nothing of it is believed").arg(bundle()),
        leaf("lint", "Print what a reviewer would ask about; --json for a report to sign")
            .arg(bundle())
            .arg(flag("strict", "Fail on warnings too")),
        leaf("diff", "Print what differs between two bundles, and which vectors they answer differently")
            .arg(word("OLD", "The bundle that is there"))
            .arg(word("NEW", "The bundle that would follow")),
        leaf("pack", "Write a bundle as one file, the same bytes from the same files")
            .arg(bundle())
            .arg(word("FILE", "The archive, a .tar")),
    ]
}

fn operator() -> [Command; 3] {
    [
        leaf(
            "activate",
            "Verify a bundle and put it in the place of the one that a gateway watches, in one step",
        )
        .arg(bundle())
        .arg(option("into", "POLICY_BUNDLE", "The gateway's setting policy_bundle").required(true))
        .arg(trust())
        .arg(pin())
        .arg(option("gateway", "URL", "Wait until this gateway says that it is active: http://HOST:PORT"))
        .arg(number("wait", "SECONDS", "How long").default_value(WAIT_SECONDS)),
        leaf(
            "rollback",
            "Sign the record by which a gateway goes back to a bundle (its setting policy_activation)",
        )
        .arg(option("to", "HASH", "The bundle's hash").required(true))
        .arg(number("sequence", "N", "Above every sequence that was ever active").required(true))
        .arg(option("reason", "TEXT", "Why, for people").required(true))
        .arg(number("not-after", "MILLISECONDS", "Last instant at which it may be carried out, since 1970"))
        .arg(
            option("key", "FILE", "A key file; once for every signer")
                .action(ArgAction::Append)
                .required(true),
        )
        .arg(option("out", "FILE", "Where the record goes").required(true)),
        leaf("countersign", "Add one more signature to such a record")
            .arg(word("FILE", "The record"))
            .arg(option("key", "FILE", "The key file").required(true)),
    ]
}

fn number(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    option(name, value, help).value_parser(value_parser!(u64))
}

fn leaf(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about).arg(flag("json", "Print JSON"))
}

fn bundle() -> Arg {
    word("DIR", "The bundle")
}

fn trust() -> Arg {
    option("trust", "ROOTS", "The gateway's setting policy_trust_roots").required(true)
}

fn pin() -> Arg {
    option("pin", "HASH,...", "The gateway's setting policy_pins: bundle hashes allowed")
}

fn word(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).required(true).help(help)
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}
