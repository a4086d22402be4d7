//! The SQL in which the databases differ: mostly JSON, lists, and how several writes become one text.

/// The texts of one database. Parameters are numbered where a whole statement is given.
#[derive(Debug)]
pub(crate) struct Statements {
    /// All events of the operations that may have changed a key (`$1`, hexadecimal) or a key that it replaced.
    pub(crate) changes: &'static str,
    /// Hashes of nodes of the log. `$1` is a JSON array of inner nodes, `$2` one of leaves. An inner node is one number,
    /// `level << 57 | position`: parsing pairs would take longer than finding the rows. No log has 2^57 events.
    pub(crate) log_nodes: &'static str,
    /// Events at the given indexes in the log; `$1` is a JSON array.
    pub(crate) events_at: &'static str,
    /// The operations that owe a step and are due: `$1` is the time, `$2` that after which none is due, `$3` the maximum of a
    /// tenant, and `$4` the maximum of all. Of replicas that share a database, each takes others.
    pub(crate) owing: &'static str,
    /// Makes operations due again after their waits; `$1` is a JSON array of waits, `$2` the time.
    pub(crate) defer: &'static str,
    /// One number: bytes of the database.
    pub(crate) database_bytes: &'static str,
    /// The table that counts the rows of numbered tables, also of those that are gone.
    pub(crate) counters: &'static str,
    /// Whether the database itself counts them there.
    pub(crate) counts_rows: bool,
    /// Level, position and hash of the inner nodes in the JSON array `$nodes`.
    pub(crate) nodes: &'static str,
    /// What makes a column with JSON one to which `->>` applies.
    pub(crate) json: &'static str,
    /// Whether the body of a row is JSON, which a damaged one may not be.
    pub(crate) is_json: &'static str,
    /// The kind of an operation's intent, as in the index `operations_of_kind`.
    pub(crate) intent_kind: &'static str,
    /// When a key was created, as in the index `custody_keys_listed`.
    pub(crate) key_created_at: &'static str,
    /// The quorum of a key that signs, as in the index `custody_keys_quorum`.
    pub(crate) key_quorum: &'static str,
    /// Whether the first write of a script wrote a row, asked by a later one.
    pub(crate) first_wrote: &'static str,
    /// Joins the writes of a script to one text, which returns the rows of those that return some.
    pub(crate) join: fn(&[Part]) -> String,
}

pub(crate) struct Part {
    pub(crate) sql: String,
    /// Whether its rows are wanted. Of the first write they always are.
    pub(crate) returns: bool,
}

impl Statements {
    /// The count of the numbered table `$1`, as `seq`.
    pub(crate) fn counted(&self) -> String {
        format!("SELECT * FROM {} WHERE name = $1", self.counters)
    }
}

/// The tenants with operations that owe a step, found in the index without reading the operations.
macro_rules! tenants_that_owe {
    () => {
        "WITH RECURSIVE tenants (tenant) AS (
            SELECT min(tenant) FROM operations WHERE owes = 1 UNION ALL
            SELECT (SELECT min(tenant) FROM operations WHERE owes = 1 AND tenant > tenants.tenant)
            FROM tenants WHERE tenant IS NOT NULL)"
    };
}
pub(crate) use tenants_that_owe;
