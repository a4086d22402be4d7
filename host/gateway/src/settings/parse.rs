//! Parses all settings, and checks those of different areas against each other.

use super::{
    Approvals, Authentication, Authority, Exception, General, Log, Nodes, Operations, Policy, Profile,
    Server, Services, Settings, TABLE, Tls, nodes,
};
use gateway_service::settings::process::TraceSettings;
use gateway_service::settings::{ProcessSettings, Reader, Resolved, Table};
use gateway_service::transport::Limits;

impl ProcessSettings for Settings {
    const TABLE: &'static Table = &TABLE;

    fn parse(resolved: &Resolved) -> Result<Self, Vec<String>> {
        let mut reader = Reader::new(resolved);
        let mut settings = read(&mut reader);
        if let Some(settings) = &settings {
            check_server(&mut reader, settings);
            check_database(&mut reader, settings);
            check_exceptions(&mut reader, settings);
            check_services(&mut reader, settings);
            check_approvals(&mut reader, settings);
            check_operations(&mut reader, settings);
            check_auth(&mut reader, settings);
        }
        // A key of first use has no approvals, and none that could be signed.
        if let Some(settings) = &mut settings
            && settings.approvals.signed.are_required()
        {
            settings.operations.auto_provision_keys = false;
        }
        settings.filter(|_| reader.faults.is_empty()).ok_or(reader.faults)
    }
}

/// `None` if a setting has a fault and no placeholder that would let the others be checked.
fn read(reader: &mut Reader<'_>) -> Option<Settings> {
    let log_origin = nodes::log_origin(reader);
    let settings = Settings {
        general: General::read(reader),
        traces: TraceSettings::read(reader).traces("operation-gateway", false),
        server: Server::read(reader),
        tls: Tls::read(reader),
        limits: Limits::read(reader),
        auth: Authentication::read(reader),
        policy: Policy::read(reader),
        approvals: Approvals::read(reader),
        operations: Operations::read(reader),
        authority: Authority::read(reader),
        nodes: Nodes::read(reader),
        services: Services::read(reader).files,
        log: Log::read(reader),
        log_origin: log_origin?,
    };
    settings.authority.check(reader);
    Some(settings)
}

fn check_server(reader: &mut Reader<'_>, settings: &Settings) {
    let Server { bind, admin_bind, body_within, request_within, .. } = &settings.server;
    if settings.general.profile == Profile::Production
        && settings.tls.files.is_none()
        && reader.resolved.text("tls") == "auto"
        && !bind.ip().to_canonical().is_loopback()
    {
        reader.fault(
            "tls",
            "must be `off` for plain HTTP beyond loopback in production: only behind a proxy that speaks TLS",
        );
    }
    settings.limits.check(reader);
    let is_short = request_within <= body_within || *request_within <= settings.operations.answer_within;
    if is_short && !reader.has_fault("request_within_ms") {
        reader.fault("request_within_ms", "must be more than `body_within_ms` and `answer_within_ms`");
    }
    if admin_bind.is_some_and(|admin| admin == *bind && admin.port() != 0) {
        reader.fault("admin_bind", "must be another address than `bind`");
    }
}

fn check_database(reader: &mut Reader<'_>, settings: &Settings) {
    let url = &settings.general.database_url;
    if settings.general.profile != Profile::Production {
        return;
    }
    if let Some(fault) = gateway_store::production_fault(url) {
        reader.fault("database_url", fault);
    }
    if gateway_store::is_postgres(url)
        && settings.nodes.remote.is_none()
        && !reader.has_fault("runtime_nodes")
    {
        reader.fault(
            "runtime_nodes",
            "must be given with a PostgreSQL database: each replica would have other embedded nodes",
        );
    }
}

/// Production must name every exception that applies, and no other.
fn check_exceptions(reader: &mut Reader<'_>, settings: &Settings) {
    let is_named = |exception| settings.general.production_exceptions.contains(&exception);
    if settings.general.profile == Profile::Development {
        if !settings.general.production_exceptions.is_empty() {
            reader.fault("production_exceptions", "must be empty in development");
        }
        return;
    }
    for exception in Exception::ALL {
        let (name, applies) = (exception.as_str(), applies(exception, settings));
        if applies && !is_named(exception) {
            let message = format!("must name `{name}`: production requires {}", exception.alternative());
            reader.fault("production_exceptions", &message);
        }
        if !applies && is_named(exception) {
            reader.fault(
                "production_exceptions",
                &format!("must not name `{name}`: these settings do not need it"),
            );
        }
    }
}

fn check_services(reader: &mut Reader<'_>, settings: &Settings) {
    let needs = settings.nodes.remote.is_some() || !settings.authority.remote.is_empty();
    if needs && settings.services.is_none() && !reader.has_fault("service_tls_certificate") {
        reader.fault(
            "service_tls_certificate",
            "must be given together with `runtime_nodes` or `authority_url`",
        );
    }
    if !needs && settings.services.is_some() {
        reader
            .fault("service_tls_certificate", "must not be given without `runtime_nodes` or `authority_url`");
    }
}

fn check_approvals(reader: &mut Reader<'_>, settings: &Settings) {
    let Approvals { required, signed, .. } = &settings.approvals;
    if *required == 0 && settings.general.profile == Profile::Production {
        reader.fault("required_approvals", "must be at least 1 in production");
    }
    if *required == 0 && signed.are_required() {
        reader.fault("required_approvals", "must be at least 1 while `signed_approvals` is `required`");
    }
}

fn check_operations(reader: &mut Reader<'_>, settings: &Settings) {
    let operations = &settings.operations;
    if settings.approvals.signed.are_required()
        && operations.auto_provision_keys
        && reader.resolved.is_given("auto_provision_keys")
    {
        reader.fault("auto_provision_keys", "must not be `true` while `signed_approvals` is `required`");
    }
    if settings.general.profile == Profile::Production {
        if operations.auto_provision_keys {
            reader.fault("auto_provision_keys", "must not be `true` in production");
        }
        if operations.signature_profile_aliases.resolve("*").is_some() {
            reader.fault("signature_profile_aliases", "must not have the name `*` in production");
        }
    }
    for (burst_name, rate, burst) in [
        ("admission_burst", operations.admission_rate, operations.admission_burst),
        ("preview_burst", operations.preview_rate, operations.preview_burst),
    ] {
        if rate > 0 && burst == 0 && !reader.has_fault(burst_name) {
            let rate_name = burst_name.replace("burst", "rate");
            reader.fault(burst_name, &format!("must be at least 1 while `{rate_name}` is not 0"));
        }
    }
}

fn check_auth(reader: &mut Reader<'_>, settings: &Settings) {
    if settings.general.profile == Profile::Production && reader.resolved.text("auth_mode") == "bypass" {
        reader.fault("auth_mode", "must not be `bypass` in production");
    }
}

/// Whether these settings need the exception.
fn applies(exception: Exception, settings: &Settings) -> bool {
    match exception {
        Exception::EmbeddedAuthority => settings.authority.remote.is_empty(),
        Exception::EmbeddedNodes => settings.nodes.remote.is_none(),
        Exception::UnsignedApprovals => !settings.approvals.signed.are_required(),
    }
}
