-- A store of 0.1.0 (schema 3) that was lived in, as that program left it.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA redrive;
CREATE FUNCTION redrive.audit_is_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the audit is append-only'; END $$;
CREATE FUNCTION redrive.audit_keeps_its_lines() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        IF OLD.id > COALESCE((SELECT removed_id FROM redrive.audit_chain), 0) THEN
            RAISE EXCEPTION 'the audit is append-only';
        END IF;
        RETURN OLD;
    END $$;
CREATE FUNCTION redrive.audit_moves_its_end() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN UPDATE redrive.audit_chain SET newest_id = NEW.id, newest_hash = NEW.hash; RETURN NULL; END $$;
CREATE FUNCTION redrive.lowered(value bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
    SELECT pg_catalog.decode(pg_catalog.lower(pg_catalog.encode(value, 'escape')), 'escape')
$$;
CREATE FUNCTION redrive.store_now() RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
CREATE FUNCTION redrive.text_parts(value text) RETURNS bytea[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
    SELECT pg_catalog.array_agg(DISTINCT pg_catalog.substr(bytes, at, 3))
    FROM (SELECT pg_catalog.convert_to(pg_catalog.lower(value), 'UTF8') AS bytes) AS lowered,
        pg_catalog.generate_series(1, pg_catalog.octet_length(bytes) - 2) AS at
$$;
CREATE FUNCTION redrive.url_key(url text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT sha256(convert_to(url, 'UTF8')) $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE redrive.attempts (
    id bigint NOT NULL,
    message_id text NOT NULL,
    queue text NOT NULL,
    url text NOT NULL,
    number bigint NOT NULL,
    epoch bigint NOT NULL,
    started_at bigint NOT NULL,
    duration_ms bigint NOT NULL,
    class text NOT NULL,
    status bigint,
    error text,
    response bytea,
    counted boolean NOT NULL,
    CONSTRAINT attempts_class_check CHECK ((class = ANY (ARRAY['delivered'::text, 'refused'::text, 'gone'::text, 'failed'::text, 'interrupted'::text])))
);
ALTER TABLE redrive.attempts ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.attempts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE redrive.audit (
    id bigint NOT NULL,
    at bigint NOT NULL,
    actor text NOT NULL,
    command text NOT NULL,
    target text NOT NULL,
    reason text,
    plan text,
    result text NOT NULL,
    detail text NOT NULL,
    hash text NOT NULL,
    broker text,
    CONSTRAINT audit_hash_check CHECK ((length(hash) = 64))
);
CREATE TABLE redrive.audit_chain (
    only_row bigint NOT NULL,
    removed bigint NOT NULL,
    removed_id bigint NOT NULL,
    removed_hash text NOT NULL,
    removed_at bigint,
    newest_id bigint NOT NULL,
    newest_hash text NOT NULL,
    CONSTRAINT audit_chain_only_row_check CHECK ((only_row = 1)),
    CONSTRAINT audit_chain_removed_check CHECK ((removed >= 0))
);
ALTER TABLE redrive.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE redrive.broker_policies (
    only_row bigint NOT NULL,
    document text NOT NULL,
    taken_at bigint NOT NULL,
    CONSTRAINT broker_policies_only_row_check CHECK ((only_row = 1))
);
CREATE TABLE redrive.dead_letters (
    id text NOT NULL COLLATE pg_catalog."C",
    home text NOT NULL,
    queue text NOT NULL,
    generation bigint NOT NULL,
    "position" bigint NOT NULL,
    origin text,
    message_id text,
    url text,
    execution text,
    reason text NOT NULL,
    class text,
    status bigint,
    error text,
    attempts bigint,
    first_failed_at bigint,
    last_failed_at bigint,
    expires_at bigint,
    redriven bigint NOT NULL,
    fingerprint text NOT NULL,
    place text NOT NULL,
    what text NOT NULL,
    size_bytes bigint NOT NULL,
    redelivered boolean NOT NULL,
    copy bytea,
    CONSTRAINT dead_letters_home_check CHECK ((home = ANY (ARRAY['broker'::text, 'event'::text, 'store'::text]))),
    CONSTRAINT dead_letters_position_check CHECK (("position" >= 0)),
    CONSTRAINT dead_letters_redriven_check CHECK ((redriven >= 0)),
    CONSTRAINT dead_letters_size_bytes_check CHECK ((size_bytes >= 0))
);
CREATE TABLE redrive.dead_queues (
    name text NOT NULL COLLATE pg_catalog."C",
    generation bigint DEFAULT 0 NOT NULL,
    claimed_by text,
    claimed_until bigint,
    seen bigint DEFAULT 0 NOT NULL,
    expected bigint,
    looked_at bigint,
    messages bigint,
    looks bigint DEFAULT 0 NOT NULL,
    problem text,
    CONSTRAINT dead_queues_generation_check CHECK ((generation >= 0)),
    CONSTRAINT dead_queues_looks_check CHECK ((looks >= 0)),
    CONSTRAINT dead_queues_seen_check CHECK ((seen >= 0))
);
CREATE TABLE redrive.delivery_queues (
    name text NOT NULL COLLATE pg_catalog."C",
    execution text,
    url text COLLATE pg_catalog."C",
    epoch bigint DEFAULT 0 NOT NULL,
    owner bigint,
    paused_by text,
    paused_reason text,
    paused_at bigint,
    wanted_by text,
    closing text DEFAULT 'open'::text NOT NULL,
    refused text,
    refusing text,
    quarantined text,
    has_companion boolean DEFAULT false NOT NULL,
    head_message text,
    head_failures bigint,
    head_first_failed_at bigint,
    head_last_failed_at bigint,
    head_last_status bigint,
    head_last_error text,
    head_next_attempt_at bigint,
    head_parked boolean,
    head_phase text,
    head_attempts_allowed bigint,
    decision_id text,
    decision_message text,
    decision_reason text,
    decision_epoch bigint,
    refusals_in_row bigint DEFAULT 0 NOT NULL,
    delivered bigint DEFAULT 0 NOT NULL,
    last_delivered_at bigint,
    active_at bigint NOT NULL,
    created_at bigint NOT NULL,
    head_event_type text,
    head_polling_time bigint,
    head_restart_count bigint,
    head_asked_until bigint,
    wanted_by_incarnation bigint,
    head_fingerprint bytea,
    decision_fingerprint bytea,
    CONSTRAINT delivery_queues_check CHECK (((owner IS NULL) OR (epoch > 0))),
    CONSTRAINT delivery_queues_check1 CHECK (((num_nulls(paused_by, paused_at) = ANY (ARRAY[0, 2])) AND ((paused_reason IS NULL) OR (paused_by IS NOT NULL)))),
    CONSTRAINT delivery_queues_check2 CHECK ((num_nulls(head_message, head_failures, head_first_failed_at, head_last_failed_at, head_parked, head_attempts_allowed) = ANY (ARRAY[0, 6]))),
    CONSTRAINT delivery_queues_check3 CHECK (((head_message IS NOT NULL) OR (num_nonnulls(head_last_status, head_last_error, head_next_attempt_at, head_phase) = 0))),
    CONSTRAINT delivery_queues_check4 CHECK ((NOT (head_parked AND (head_next_attempt_at IS NOT NULL)))),
    CONSTRAINT delivery_queues_check5 CHECK ((num_nulls(decision_id, decision_message, decision_reason, decision_epoch) = ANY (ARRAY[0, 4]))),
    CONSTRAINT delivery_queues_closing_check CHECK ((closing = ANY (ARRAY['open'::text, 'ended'::text, 'closing'::text]))),
    CONSTRAINT delivery_queues_delivered_check CHECK ((delivered >= 0)),
    CONSTRAINT delivery_queues_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT delivery_queues_head_phase_check CHECK ((head_phase = ANY (ARRAY['immediate'::text, 'pre_backoff'::text, 'backoff'::text, 'post_backoff'::text]))),
    CONSTRAINT delivery_queues_head_polling_time_check CHECK ((head_polling_time >= 0)),
    CONSTRAINT delivery_queues_head_restart_count_check CHECK ((head_restart_count >= 0)),
    CONSTRAINT delivery_queues_refusals_in_row_check CHECK ((refusals_in_row >= 0))
);
CREATE TABLE redrive.endpoints (
    url_key bytea GENERATED ALWAYS AS (redrive.url_key(url)) STORED NOT NULL,
    url text NOT NULL COLLATE pg_catalog."C",
    state text DEFAULT 'available'::text NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    since bigint NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL,
    next_attempt_at bigint,
    last_status bigint,
    last_error text,
    last_success_at bigint,
    probe_queue text,
    probe_message text,
    probe_token bigint,
    probe_until bigint,
    CONSTRAINT endpoints_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT endpoints_check CHECK (((state = 'unavailable'::text) = (next_attempt_at IS NOT NULL))),
    CONSTRAINT endpoints_check1 CHECK ((num_nulls(probe_token, probe_until) = ANY (ARRAY[0, 2]))),
    CONSTRAINT endpoints_check2 CHECK (((state = 'unavailable'::text) OR (probe_token IS NULL))),
    CONSTRAINT endpoints_check3 CHECK (((state <> 'available'::text) OR ((attempts = 0) AND (num_nonnulls(probe_queue, probe_message) = 0)))),
    CONSTRAINT endpoints_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT endpoints_state_check CHECK ((state = ANY (ARRAY['available'::text, 'unavailable'::text, 'parked'::text, 'disabled'::text])))
);
CREATE TABLE redrive.event_history (
    "position" bigint NOT NULL,
    id bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    reference text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    attempts bigint NOT NULL,
    reason text,
    created_at bigint NOT NULL,
    handled_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
ALTER TABLE redrive.event_history ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.event_history_position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE redrive.event_outbox (
    id bigint NOT NULL,
    notification text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    message bytea NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    reference text NOT NULL COLLATE pg_catalog."C",
    attempts bigint DEFAULT 0 NOT NULL,
    next_at bigint DEFAULT 0 NOT NULL,
    error text,
    created_at bigint NOT NULL
);
ALTER TABLE redrive.event_outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.event_outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE redrive.event_token
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE redrive.event_types (
    name text NOT NULL COLLATE pg_catalog."C",
    document text DEFAULT '{}'::text NOT NULL,
    max_claim_count bigint,
    dead_letter_type text COLLATE pg_catalog."C",
    dead_letter_ttl bigint,
    coalesce_window bigint,
    coalesce_max bigint,
    cutoff bigint,
    backoff_base bigint,
    backoff_cap bigint,
    history_ttl bigint,
    is_target boolean DEFAULT false NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    used_at bigint DEFAULT 0 NOT NULL,
    CONSTRAINT event_types_backoff_base_check CHECK ((backoff_base > 0)),
    CONSTRAINT event_types_backoff_cap_check CHECK ((backoff_cap > 0)),
    CONSTRAINT event_types_check CHECK ((dead_letter_type <> name)),
    CONSTRAINT event_types_check1 CHECK ((coalesce_max >= coalesce_window)),
    CONSTRAINT event_types_check2 CHECK (((coalesce_window IS NULL) = (coalesce_max IS NULL))),
    CONSTRAINT event_types_check3 CHECK ((NOT (is_target AND (dead_letter_type IS NOT NULL)))),
    CONSTRAINT event_types_coalesce_window_check CHECK ((coalesce_window > 0)),
    CONSTRAINT event_types_cutoff_check CHECK ((cutoff >= 1)),
    CONSTRAINT event_types_dead_letter_ttl_check CHECK ((dead_letter_ttl > 0)),
    CONSTRAINT event_types_history_ttl_check CHECK ((history_ttl > 0)),
    CONSTRAINT event_types_max_claim_count_check CHECK ((max_claim_count >= 1)),
    CONSTRAINT event_types_name_check CHECK ((name <> ''::text))
);
CREATE TABLE redrive.events (
    id bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    subtype text NOT NULL COLLATE pg_catalog."C",
    reference text NOT NULL COLLATE pg_catalog."C",
    dated bigint DEFAULT 0 NOT NULL,
    keyed boolean DEFAULT true NOT NULL,
    state bigint DEFAULT 0 NOT NULL,
    nbf bigint NOT NULL,
    created_at bigint NOT NULL,
    first_at bigint NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL,
    revision bigint DEFAULT 1 NOT NULL,
    merged bigint DEFAULT 0 NOT NULL,
    reason text,
    payload bytea,
    properties text,
    expires_at bigint,
    claim_count bigint DEFAULT 0 NOT NULL,
    claim_history text,
    origin text COLLATE pg_catalog."C",
    first_failed_at bigint,
    last_failed_at bigint,
    lease_token bigint,
    lease_revision bigint,
    lease_owner bigint,
    lease_claim text COLLATE pg_catalog."C",
    lease_until bigint,
    uid text DEFAULT (gen_random_uuid())::text NOT NULL,
    trace text,
    CONSTRAINT events_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT events_check CHECK (((state = 1) = (lease_token IS NOT NULL))),
    CONSTRAINT events_check1 CHECK ((((lease_token IS NULL) = (lease_revision IS NULL)) AND ((lease_token IS NULL) = (lease_until IS NULL)))),
    CONSTRAINT events_check2 CHECK (((lease_token IS NULL) = ((lease_owner IS NULL) AND (lease_claim IS NULL)))),
    CONSTRAINT events_check3 CHECK (((subtype = 'delayed'::text) OR (dated = 0))),
    CONSTRAINT events_claim_count_check CHECK ((claim_count >= 0)),
    CONSTRAINT events_merged_check CHECK ((merged >= 0)),
    CONSTRAINT events_reference_check CHECK ((reference <> ''::text)),
    CONSTRAINT events_revision_check CHECK ((revision >= 1)),
    CONSTRAINT events_state_check CHECK (((state >= 0) AND (state <= 3))),
    CONSTRAINT events_subtype_check CHECK ((subtype = ANY (ARRAY[''::text, 'delayed'::text]))),
    CONSTRAINT events_type_check CHECK ((type <> ''::text))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE redrive.events ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE redrive.forgotten_endpoints (
    only_row bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT forgotten_endpoints_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT forgotten_endpoints_only_row_check CHECK ((only_row = 1))
);
CREATE TABLE redrive.incarnations (
    id bigint NOT NULL,
    name text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    version bigint NOT NULL,
    fingerprint text,
    take_over bigint NOT NULL,
    counter bigint DEFAULT 0 NOT NULL,
    alive boolean NOT NULL,
    started_at bigint NOT NULL,
    beat_at bigint NOT NULL,
    ended_at bigint,
    machine text,
    process_started bigint,
    deadline bigint,
    CONSTRAINT incarnations_check CHECK ((alive = (ended_at IS NULL))),
    CONSTRAINT incarnations_counter_check CHECK ((counter >= 0)),
    CONSTRAINT incarnations_deadline_check CHECK ((deadline > 0)),
    CONSTRAINT incarnations_take_over_check CHECK ((take_over > 0))
);
ALTER TABLE redrive.incarnations ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.incarnations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE redrive.janitor (
    only_row integer NOT NULL,
    owner bigint,
    sweep bigint DEFAULT 0 NOT NULL,
    swept_at bigint,
    queues bigint DEFAULT 0 NOT NULL,
    soon bigint DEFAULT 0 NOT NULL,
    soon_messages bigint DEFAULT 0 NOT NULL,
    CONSTRAINT janitor_only_row_check CHECK ((only_row = 1))
);
CREATE TABLE redrive.kept_messages (
    letter text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    queue text NOT NULL,
    message bytea NOT NULL,
    run text,
    actor text NOT NULL,
    at bigint NOT NULL,
    until bigint,
    CONSTRAINT kept_messages_kind_check CHECK ((kind = ANY (ARRAY['discarded'::text, 'edited'::text, 'original'::text])))
);
CREATE TABLE redrive.lifetimes (
    name text NOT NULL COLLATE pg_catalog."C",
    quorum boolean NOT NULL,
    lifetime_ms bigint,
    argument_ms bigint,
    by_operator boolean NOT NULL,
    consumers bigint,
    messages bigint,
    bytes bigint,
    unused_since bigint,
    expires_at bigint,
    seen_at bigint NOT NULL,
    sweep bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE redrive.looks (
    queue text NOT NULL,
    seen text NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE redrive.named_leases (
    name text NOT NULL COLLATE pg_catalog."C",
    owner bigint,
    epoch bigint NOT NULL
);
CREATE TABLE redrive.numbers (
    name text NOT NULL,
    value bigint NOT NULL,
    CONSTRAINT numbers_name_check CHECK ((name = ANY (ARRAY['epoch'::text, 'generation'::text]))),
    CONSTRAINT numbers_value_check CHECK ((value >= 0))
);
CREATE TABLE redrive.policies (
    event_type text NOT NULL COLLATE pg_catalog."C",
    url text NOT NULL COLLATE pg_catalog."C",
    url_key bytea GENERATED ALWAYS AS (redrive.url_key(url)) STORED NOT NULL,
    version bigint NOT NULL,
    document text,
    author text NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT policies_version_check CHECK ((version > 0))
);
CREATE TABLE redrive.rescued (
    id bigint NOT NULL,
    queue text NOT NULL,
    header_frame bytea NOT NULL,
    body bytea NOT NULL,
    reason text NOT NULL,
    at bigint NOT NULL
);
ALTER TABLE redrive.rescued ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.rescued_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE redrive.run_items (
    run text NOT NULL COLLATE pg_catalog."C",
    ordinal bigint NOT NULL,
    letter text NOT NULL,
    source text NOT NULL,
    target text,
    bytes bigint NOT NULL,
    state text NOT NULL,
    reason text,
    dropped text,
    CONSTRAINT run_items_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT run_items_ordinal_check CHECK ((ordinal >= 0)),
    CONSTRAINT run_items_state_check CHECK ((state = ANY (ARRAY['planned'::text, 'journalled'::text, 'published'::text, 'settled'::text, 'failed'::text, 'skipped'::text, 'returned'::text])))
)
WITH (fillfactor='50');
CREATE TABLE redrive.run_sources (
    queue text NOT NULL COLLATE pg_catalog."C",
    run text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE redrive.runs (
    id text NOT NULL COLLATE pg_catalog."C",
    command text NOT NULL,
    state text NOT NULL,
    done bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    skipped bigint DEFAULT 0 NOT NULL,
    total bigint DEFAULT 0 NOT NULL,
    rate bigint,
    canary bigint,
    actor text DEFAULT ''::text NOT NULL,
    reason text,
    note text,
    plan text DEFAULT ''::text NOT NULL,
    hash text DEFAULT ''::text NOT NULL,
    owner bigint,
    epoch bigint DEFAULT 0 NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint,
    updated_at bigint NOT NULL,
    ended_at bigint,
    removing boolean DEFAULT false NOT NULL,
    broker text,
    CONSTRAINT runs_canary_check CHECK ((canary > 0)),
    CONSTRAINT runs_check CHECK (((owner IS NULL) OR (epoch > 0))),
    CONSTRAINT runs_check1 CHECK (((state <> 'planned'::text) OR (started_at IS NULL))),
    CONSTRAINT runs_done_check CHECK ((done >= 0)),
    CONSTRAINT runs_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT runs_failed_check CHECK ((failed >= 0)),
    CONSTRAINT runs_rate_check CHECK ((rate > 0)),
    CONSTRAINT runs_skipped_check CHECK ((skipped >= 0)),
    CONSTRAINT runs_state_check CHECK ((state = ANY (ARRAY['planned'::text, 'running'::text, 'canary'::text, 'paused'::text, 'done'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT runs_total_check CHECK ((total >= 0))
);
CREATE TABLE redrive.saved_messages (
    save text NOT NULL COLLATE pg_catalog."C",
    place bigint NOT NULL,
    win bigint NOT NULL,
    message bytea NOT NULL,
    bytes bigint NOT NULL,
    exchange text NOT NULL,
    routing_key text NOT NULL,
    CONSTRAINT saved_messages_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT saved_messages_place_check CHECK ((place >= 0)),
    CONSTRAINT saved_messages_win_check CHECK ((win >= 0))
);
CREATE TABLE redrive.saves (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    arguments text NOT NULL,
    cause text NOT NULL,
    state text NOT NULL,
    owner bigint,
    actor text NOT NULL,
    reason text,
    messages bigint DEFAULT 0 NOT NULL,
    bytes bigint DEFAULT 0 NOT NULL,
    at bigint NOT NULL,
    until bigint NOT NULL,
    removing boolean DEFAULT false NOT NULL,
    CONSTRAINT saves_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT saves_cause_check CHECK ((cause = ANY (ARRAY['save'::text, 'purge'::text, 'expiry'::text]))),
    CONSTRAINT saves_messages_check CHECK ((messages >= 0)),
    CONSTRAINT saves_state_check CHECK ((state = ANY (ARRAY['taking'::text, 'kept'::text, 'restored'::text])))
);
CREATE TABLE redrive.schema_changes (
    number bigint NOT NULL,
    checksum text NOT NULL,
    applied_at bigint NOT NULL
);
CREATE TABLE redrive.settings (
    only_row bigint NOT NULL,
    minimum_version bigint NOT NULL,
    fingerprint text,
    identity text,
    broker text,
    CONSTRAINT settings_identity_check CHECK ((length(identity) = 36)),
    CONSTRAINT settings_minimum_version_check CHECK ((minimum_version >= 0)),
    CONSTRAINT settings_only_row_check CHECK ((only_row = 1))
);
CREATE TABLE redrive.stored_letters (
    place bigint NOT NULL,
    letter text NOT NULL COLLATE pg_catalog."C",
    message bytea NOT NULL,
    bytes bigint NOT NULL,
    at bigint NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT stored_letters_bytes_check CHECK ((bytes >= 0))
);
ALTER TABLE redrive.stored_letters ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.stored_letters_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE redrive.subscriptions (
    id bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    url text NOT NULL COLLATE pg_catalog."C",
    options text NOT NULL,
    created_at bigint NOT NULL
);
ALTER TABLE redrive.subscriptions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.subscriptions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE redrive.unbindings (
    queue text NOT NULL,
    owner bigint
);
INSERT INTO redrive.attempts (id, message_id, queue, url, number, epoch, started_at, duration_ms, class, status, error, response, counted) OVERRIDING SYSTEM VALUE VALUES (1, '01a20d77-a200-75f5-a98b-fa64fc74775d', 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'http://127.0.0.1:9/hook', 1, 1795748771632, 1795748771690015, 0, 'failed', NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, true);
INSERT INTO redrive.attempts (id, message_id, queue, url, number, epoch, started_at, duration_ms, class, status, error, response, counted) OVERRIDING SYSTEM VALUE VALUES (2, '01a20d77-a200-75f5-a98b-fa64fc74775d', 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'http://127.0.0.1:9/hook', 2, 1795748771632, 1795748771707585, 0, 'failed', NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, true);
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) OVERRIDING SYSTEM VALUE VALUES (1, 1795748774808309, 'cli:root@vm', 'endpoint disable', 'http://127.0.0.1:9/hook', 'dünn', '356cba3b75561fc61daa68511002b07f11c5dc2408ec4b6cb58908ae7a57437b', 'planned', 'disable http://127.0.0.1:9/hook', 'b4c716ed6e220aaa45118af361de1b16e1904fd461411969a4d0b73960b7c32f', 'redrive-28750@vm/redrive');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) OVERRIDING SYSTEM VALUE VALUES (2, 1795748774821294, 'cli:root@vm', 'endpoint disable', 'http://127.0.0.1:9/hook', 'dünn', '356cba3b75561fc61daa68511002b07f11c5dc2408ec4b6cb58908ae7a57437b', 'done', 'disable http://127.0.0.1:9/hook', '117a892f414859290a1d591337b9652514a6b58576ed92d62126c7f3dc9c7aaf', 'redrive-28750@vm/redrive');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) OVERRIDING SYSTEM VALUE VALUES (3, 1795748774959845, 'cli:root@vm', 'policy set', 'http://127.0.0.1:9/other', NULL, '64ce063aa7163d3d1b94075191792d92df1ee1c7e621230bd49782fd00600403', 'planned', 'set the retry policy of http://127.0.0.1:9/other', '1e5e71dea226b4386cba86d2a4ef8b851098cf376df25f794659f21fe5998cd9', 'redrive-28750@vm/redrive');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) OVERRIDING SYSTEM VALUE VALUES (4, 1795748774970811, 'cli:root@vm', 'policy set', 'http://127.0.0.1:9/other', NULL, '64ce063aa7163d3d1b94075191792d92df1ee1c7e621230bd49782fd00600403', 'done', 'set the retry policy of http://127.0.0.1:9/other', '60ff9df26b7e029dff6e196d1cac28ebc01c547867996df0a62a4410983a1cc4', 'redrive-28750@vm/redrive');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) OVERRIDING SYSTEM VALUE VALUES (5, 1795748775114627, 'cli:root@vm', 'event-type set', 't', NULL, '30ffc81464f9253077c4a06e9c0a85c810c077af0d51610d3b845c90e761f781', 'planned', 'set the metadata of event type "t"', '5ca1bcfaa29482d7ea5b70ca5f60d4ba030792f12cc8d7fda70346ff196ff0e1', 'redrive-28750@vm/redrive');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) OVERRIDING SYSTEM VALUE VALUES (6, 1795748775126011, 'cli:root@vm', 'event-type set', 't', NULL, '30ffc81464f9253077c4a06e9c0a85c810c077af0d51610d3b845c90e761f781', 'done', 'set the metadata of event type "t"', '803b5072664be1c3833de9f80c0d20bcc59f6603dc89e659fec9eebfb87fda15', 'redrive-28750@vm/redrive');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) OVERRIDING SYSTEM VALUE VALUES (7, 1795748775333300, 'cli:root@vm', 'subscription add', 'http://127.0.0.1:9/hook', NULL, '9886786967d3142ba20afeb4310230b1d1fe7356922b8094ff43bd39c9066e89', 'planned', 'subscribe http://127.0.0.1:9/hook to "t"', '486bb1f0d955bdd1da0bce876dd998358a893854cfdbc7ab6dbb23df5a5f0d19', 'redrive-28750@vm/redrive');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) OVERRIDING SYSTEM VALUE VALUES (8, 1795748775342553, 'cli:root@vm', 'subscription add', 'http://127.0.0.1:9/hook', NULL, '9886786967d3142ba20afeb4310230b1d1fe7356922b8094ff43bd39c9066e89', 'done', 'subscribe http://127.0.0.1:9/hook to "t"', '121210ab0ecb5ac1d2ab5845f291602d1a8deae542d4cbecfc7c81d7d531bfc6', 'redrive-28750@vm/redrive');
INSERT INTO redrive.audit_chain (only_row, removed, removed_id, removed_hash, removed_at, newest_id, newest_hash) VALUES (1, 0, 0, '', NULL, 8, '121210ab0ecb5ac1d2ab5845f291602d1a8deae542d4cbecfc7c81d7d531bfc6');
INSERT INTO redrive.broker_policies (only_row, document, taken_at) VALUES (1, '[]', 1795748768093098);
INSERT INTO redrive.delivery_queues (name, execution, url, epoch, owner, paused_by, paused_reason, paused_at, wanted_by, closing, refused, refusing, quarantined, has_companion, head_message, head_failures, head_first_failed_at, head_last_failed_at, head_last_status, head_last_error, head_next_attempt_at, head_parked, head_phase, head_attempts_allowed, decision_id, decision_message, decision_reason, decision_epoch, refusals_in_row, delivered, last_delivered_at, active_at, created_at, head_event_type, head_polling_time, head_restart_count, head_asked_until, wanted_by_incarnation, head_fingerprint, decision_fingerprint) VALUES ('redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'run', 'http://127.0.0.1:9/hook', 1795748771632, NULL, NULL, NULL, NULL, NULL, 'open', NULL, NULL, NULL, false, '01a20d77-a200-75f5-a98b-fa64fc74775d', 2, 1795748771694231, 1795748771709830, NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, false, 'pre_backoff', 44, NULL, NULL, NULL, NULL, 0, 0, NULL, 1795748771709830, 1795748771629765, NULL, NULL, NULL, NULL, NULL, '\xec419b58bb17aa4cca2fec240b841355', NULL);
INSERT INTO redrive.endpoints (url, state, epoch, since, attempts, next_attempt_at, last_status, last_error, last_success_at, probe_queue, probe_message, probe_token, probe_until) VALUES ('http://127.0.0.1:9/hook', 'disabled', 1795748774812, 1795748774812558, 2, NULL, NULL, 'disabled by cli:root@vm', NULL, 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', '01a20d77-a200-75f5-a98b-fa64fc74775d', NULL, NULL);
INSERT INTO redrive.event_types (name, document, max_claim_count, dead_letter_type, dead_letter_ttl, coalesce_window, coalesce_max, cutoff, backoff_base, backoff_cap, history_ttl, is_target, created_at, updated_at, used_at) VALUES ('t', '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, 1795748775123979, 1795748775123979, 1795748775714348);
INSERT INTO redrive.events (id, type, subtype, reference, dated, keyed, state, nbf, created_at, first_at, attempts, revision, merged, reason, payload, properties, expires_at, claim_count, claim_history, origin, first_failed_at, last_failed_at, lease_token, lease_revision, lease_owner, lease_claim, lease_until, uid, trace) OVERRIDING SYSTEM VALUE VALUES (1, 't', 'delayed', 'a', 4102444800000000, true, 0, 4102444800000000, 1795748775524470, 1795748775524470, 0, 1, 0, NULL, '\x7b226e223a317d', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '38a4f634-e3d0-4d01-bb2b-d6fd243342a9', NULL);
INSERT INTO redrive.events (id, type, subtype, reference, dated, keyed, state, nbf, created_at, first_at, attempts, revision, merged, reason, payload, properties, expires_at, claim_count, claim_history, origin, first_failed_at, last_failed_at, lease_token, lease_revision, lease_owner, lease_claim, lease_until, uid, trace) OVERRIDING SYSTEM VALUE VALUES (2, 't', 'delayed', 'b', 4102444800000000, true, 0, 4102444800000000, 1795748775730585, 1795748775730585, 0, 1, 0, NULL, '\x7b226e223a317d', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'aedbcb4d-21ce-4570-84c3-9d9e53306f6a', NULL);
INSERT INTO redrive.forgotten_endpoints (only_row, epoch) VALUES (1, 0);
INSERT INTO redrive.incarnations (id, name, host, pid, version, fingerprint, take_over, counter, alive, started_at, beat_at, ended_at, machine, process_started, deadline) OVERRIDING SYSTEM VALUE VALUES (1, 'redrive-21825-258b0538', 'vm', 21825, 1000, '03a760b6', 60000000, 9, false, 1795748767717895, 1795748775772087, 1795748776642579, 'd5791df8-5c4d-452f-9d5e-a693956799e0 pid:[4026531836]', 346807, 15000000);
INSERT INTO redrive.janitor (only_row, owner, sweep, swept_at, queues, soon, soon_messages) VALUES (1, 1, 1, 1795748767793048, 0, 0, 0);
INSERT INTO redrive.named_leases (name, owner, epoch) VALUES ('outbox', NULL, 1795748767748);
INSERT INTO redrive.named_leases (name, owner, epoch) VALUES ('alerts', NULL, 1795748767770);
INSERT INTO redrive.numbers (name, value) VALUES ('epoch', 1795748771632);
INSERT INTO redrive.numbers (name, value) VALUES ('generation', 1795748774968);
INSERT INTO redrive.policies (event_type, url, version, document, author, at) VALUES ('', 'http://127.0.0.1:9/other', 1, '{"maximum_delay":60}', 'cli:root@vm', 1795748774965843);
INSERT INTO redrive.schema_changes (number, checksum, applied_at) VALUES (1, 'f93708d50e0e5834d1f833bbfe8acfa23c0cf4adbe62a664b09cd60d4d39f9ea', 1795748767517433);
INSERT INTO redrive.schema_changes (number, checksum, applied_at) VALUES (2, '7c29d979ab6b771d43710ae16db2876ece5ee73c75316cee164a28f897df0474', 1795748767518140);
INSERT INTO redrive.schema_changes (number, checksum, applied_at) VALUES (3, '598ac0aa222c87e50b8f8dac876bbabfca824ae7db18cbf0f9b0cc9332fd3112', 1795748767520174);
INSERT INTO redrive.settings (only_row, minimum_version, fingerprint, identity, broker) VALUES (1, 0, '03a760b6', '01a21af7-a73c-749a-8420-6d091a96ab56', 'redrive-28750@vm/redrive');
INSERT INTO redrive.subscriptions (id, type, url, options, created_at) OVERRIDING SYSTEM VALUE VALUES (1, 't', 'http://127.0.0.1:9/hook', '{}', 1795748775340449);
SELECT pg_catalog.setval('redrive.attempts_id_seq', 2, true);
SELECT pg_catalog.setval('redrive.audit_id_seq', 8, true);
SELECT pg_catalog.setval('redrive.event_history_position_seq', 1, false);
SELECT pg_catalog.setval('redrive.event_outbox_id_seq', 1, false);
SELECT pg_catalog.setval('redrive.event_token', 1, false);
SELECT pg_catalog.setval('redrive.events_id_seq', 2, true);
SELECT pg_catalog.setval('redrive.incarnations_id_seq', 1, true);
SELECT pg_catalog.setval('redrive.rescued_id_seq', 1, false);
SELECT pg_catalog.setval('redrive.stored_letters_place_seq', 1, false);
SELECT pg_catalog.setval('redrive.subscriptions_id_seq', 1, true);
ALTER TABLE ONLY redrive.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY redrive.audit_chain
    ADD CONSTRAINT audit_chain_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY redrive.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY redrive.broker_policies
    ADD CONSTRAINT broker_policies_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY redrive.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (id);
ALTER TABLE ONLY redrive.dead_queues
    ADD CONSTRAINT dead_queues_pkey PRIMARY KEY (name);
ALTER TABLE ONLY redrive.delivery_queues
    ADD CONSTRAINT delivery_queues_pkey PRIMARY KEY (name);
ALTER TABLE ONLY redrive.endpoints
    ADD CONSTRAINT endpoints_pkey PRIMARY KEY (url_key);
ALTER TABLE ONLY redrive.event_history
    ADD CONSTRAINT event_history_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY redrive.event_outbox
    ADD CONSTRAINT event_outbox_notification_key UNIQUE (notification);
ALTER TABLE ONLY redrive.event_outbox
    ADD CONSTRAINT event_outbox_pkey PRIMARY KEY (id);
ALTER TABLE ONLY redrive.event_types
    ADD CONSTRAINT event_types_pkey PRIMARY KEY (name);
ALTER TABLE ONLY redrive.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);
ALTER TABLE ONLY redrive.forgotten_endpoints
    ADD CONSTRAINT forgotten_endpoints_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY redrive.incarnations
    ADD CONSTRAINT incarnations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY redrive.janitor
    ADD CONSTRAINT janitor_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY redrive.kept_messages
    ADD CONSTRAINT kept_messages_pkey PRIMARY KEY (kind, letter);
ALTER TABLE ONLY redrive.lifetimes
    ADD CONSTRAINT lifetimes_pkey PRIMARY KEY (name);
ALTER TABLE ONLY redrive.looks
    ADD CONSTRAINT looks_pkey PRIMARY KEY (queue);
ALTER TABLE ONLY redrive.named_leases
    ADD CONSTRAINT named_leases_pkey PRIMARY KEY (name);
ALTER TABLE ONLY redrive.numbers
    ADD CONSTRAINT numbers_pkey PRIMARY KEY (name);
ALTER TABLE ONLY redrive.policies
    ADD CONSTRAINT policies_pkey PRIMARY KEY (event_type, url_key, version);
ALTER TABLE ONLY redrive.rescued
    ADD CONSTRAINT rescued_pkey PRIMARY KEY (id);
ALTER TABLE ONLY redrive.run_items
    ADD CONSTRAINT run_items_pkey PRIMARY KEY (run, ordinal);
ALTER TABLE ONLY redrive.run_sources
    ADD CONSTRAINT run_sources_pkey PRIMARY KEY (queue);
ALTER TABLE ONLY redrive.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY redrive.saved_messages
    ADD CONSTRAINT saved_messages_pkey PRIMARY KEY (save, place);
ALTER TABLE ONLY redrive.saves
    ADD CONSTRAINT saves_pkey PRIMARY KEY (id);
ALTER TABLE ONLY redrive.schema_changes
    ADD CONSTRAINT schema_changes_pkey PRIMARY KEY (number);
ALTER TABLE ONLY redrive.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY redrive.stored_letters
    ADD CONSTRAINT stored_letters_letter_key UNIQUE (letter);
ALTER TABLE ONLY redrive.stored_letters
    ADD CONSTRAINT stored_letters_pkey PRIMARY KEY (place);
ALTER TABLE ONLY redrive.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY redrive.unbindings
    ADD CONSTRAINT unbindings_pkey PRIMARY KEY (queue);
CREATE INDEX attempts_message_id_started_at_id_idx ON redrive.attempts USING btree (message_id, started_at, id);
CREATE INDEX attempts_queue_started_at_id_idx ON redrive.attempts USING btree (queue, started_at, id);
CREATE INDEX attempts_started_at_id_idx ON redrive.attempts USING btree (started_at, id);
CREATE INDEX attempts_url_key_started_at_id_idx ON redrive.attempts USING btree (redrive.url_key(url), started_at, id);
CREATE INDEX dead_letters_by_fingerprint ON redrive.dead_letters USING btree (fingerprint, COALESCE(last_failed_at, (0)::bigint) DESC, id);
CREATE INDEX dead_letters_by_last_failed_at ON redrive.dead_letters USING btree (COALESCE(last_failed_at, (0)::bigint) DESC, id);
CREATE INDEX dead_letters_by_queue ON redrive.dead_letters USING btree (queue, generation);
CREATE INDEX delivery_queues_by_wanted_by_incarnation ON redrive.delivery_queues USING btree (wanted_by_incarnation) WHERE (wanted_by_incarnation IS NOT NULL);
CREATE INDEX delivery_queues_head_next_attempt_at_idx ON redrive.delivery_queues USING btree (head_next_attempt_at) WHERE (head_next_attempt_at IS NOT NULL);
CREATE INDEX delivery_queues_name_idx ON redrive.delivery_queues USING btree (name) WHERE head_parked;
CREATE INDEX delivery_queues_name_idx1 ON redrive.delivery_queues USING btree (name) WHERE (closing <> 'open'::text);
CREATE INDEX delivery_queues_name_idx2 ON redrive.delivery_queues USING btree (name) WHERE (decision_id IS NOT NULL);
CREATE INDEX delivery_queues_owner_idx ON redrive.delivery_queues USING btree (owner) WHERE (owner IS NOT NULL);
CREATE INDEX delivery_queues_url_key_idx ON redrive.delivery_queues USING btree (redrive.url_key(url));
CREATE INDEX endpoints_state_idx ON redrive.endpoints USING btree (state) WHERE (state <> 'available'::text);
CREATE INDEX event_attempts ON redrive.events USING btree (id) WHERE (attempts > 0);
CREATE INDEX event_claim ON redrive.events USING btree (lease_claim) WHERE (lease_claim IS NOT NULL);
CREATE INDEX event_dead ON redrive.events USING btree (id) WHERE ((state = 2) OR (origin IS NOT NULL));
CREATE INDEX event_error_parts ON redrive.events USING gin (redrive.text_parts(reason)) WHERE (("left"(reason, 7) = 'retry: '::text) AND (state <> 1));
CREATE INDEX event_errors ON redrive.events USING btree (id) WHERE ("left"(reason, 7) = 'retry: '::text);
CREATE INDEX event_expiring ON redrive.events USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX event_history_expires_at_idx ON redrive.event_history USING btree (expires_at);
CREATE INDEX event_history_type_position_idx ON redrive.event_history USING btree (type, "position");
CREATE UNIQUE INDEX event_key ON redrive.events USING btree (type, reference, subtype, dated) WHERE keyed;
CREATE UNIQUE INDEX event_leased ON redrive.events USING btree (type, reference) WHERE ((state = 1) AND keyed);
CREATE INDEX event_list ON redrive.events USING btree (type, id);
CREATE INDEX event_outbox_queue_id_idx ON redrive.event_outbox USING btree (queue, id);
CREATE INDEX event_ready ON redrive.events USING btree (type, nbf, id) WHERE (state = 0);
CREATE INDEX event_types_by_used_at ON redrive.event_types USING btree (used_at);
CREATE INDEX event_unkeyed ON redrive.events USING btree (type, reference) WHERE (NOT keyed);
CREATE INDEX event_until ON redrive.events USING btree (lease_until) WHERE (state = 1);
CREATE INDEX incarnations_alive ON redrive.incarnations USING btree (id) WHERE alive;
CREATE INDEX incarnations_ended_at_idx ON redrive.incarnations USING btree (ended_at);
CREATE INDEX kept_messages_run_letter_idx ON redrive.kept_messages USING btree (run, letter);
CREATE INDEX kept_messages_until_idx ON redrive.kept_messages USING btree (until) WHERE (until IS NOT NULL);
CREATE INDEX looks_by_age ON redrive.looks USING btree (at);
CREATE INDEX policies_by_at ON redrive.policies USING btree (at);
CREATE INDEX policies_by_url ON redrive.policies USING btree (url_key);
CREATE INDEX rescued_by_at ON redrive.rescued USING btree (at);
CREATE INDEX rescued_queue_id_idx ON redrive.rescued USING btree (queue, id);
CREATE INDEX run_sources_run_idx ON redrive.run_sources USING btree (run);
CREATE INDEX runs_by_ended_at ON redrive.runs USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX runs_ended ON redrive.runs USING btree (id) WHERE (ended_at IS NOT NULL);
CREATE INDEX runs_not_over ON redrive.runs USING btree (id) WHERE (state = ANY (ARRAY['running'::text, 'canary'::text, 'paused'::text]));
CREATE INDEX runs_owner_idx ON redrive.runs USING btree (owner) WHERE (owner IS NOT NULL);
CREATE INDEX runs_planned ON redrive.runs USING btree (created_at) WHERE (state = 'planned'::text);
CREATE INDEX runs_removing ON redrive.runs USING btree (id) WHERE removing;
CREATE INDEX runs_state_idx ON redrive.runs USING btree (state);
CREATE INDEX saves_owner_idx ON redrive.saves USING btree (owner) WHERE (owner IS NOT NULL);
CREATE INDEX saves_queue_id_idx ON redrive.saves USING btree (queue, id);
CREATE UNIQUE INDEX saves_queue_idx ON redrive.saves USING btree (queue) WHERE (state = 'taking'::text);
CREATE INDEX saves_removing ON redrive.saves USING btree (id) WHERE removing;
CREATE INDEX saves_until_idx ON redrive.saves USING btree (until);
CREATE UNIQUE INDEX subscriptions_type_url_key_idx ON redrive.subscriptions USING btree (type, redrive.url_key(url));
CREATE INDEX unbindings_by_owner ON redrive.unbindings USING btree (owner) WHERE (owner IS NOT NULL);
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON redrive.audit FOR EACH STATEMENT EXECUTE FUNCTION redrive.audit_is_append_only();
CREATE TRIGGER audit_keeps_its_lines BEFORE DELETE ON redrive.audit FOR EACH ROW EXECUTE FUNCTION redrive.audit_keeps_its_lines();
CREATE TRIGGER audit_moves_its_end AFTER INSERT ON redrive.audit FOR EACH ROW EXECUTE FUNCTION redrive.audit_moves_its_end();
ALTER TABLE ONLY redrive.delivery_queues
    ADD CONSTRAINT delivery_queues_owner_fkey FOREIGN KEY (owner) REFERENCES redrive.incarnations(id);
ALTER TABLE ONLY redrive.event_types
    ADD CONSTRAINT event_types_dead_letter_type_fkey FOREIGN KEY (dead_letter_type) REFERENCES redrive.event_types(name);
ALTER TABLE ONLY redrive.janitor
    ADD CONSTRAINT janitor_owner_fkey FOREIGN KEY (owner) REFERENCES redrive.incarnations(id) ON DELETE SET NULL;
ALTER TABLE ONLY redrive.run_items
    ADD CONSTRAINT run_items_run_fkey FOREIGN KEY (run) REFERENCES redrive.runs(id) ON DELETE CASCADE;
ALTER TABLE ONLY redrive.run_sources
    ADD CONSTRAINT run_sources_run_fkey FOREIGN KEY (run) REFERENCES redrive.runs(id) ON DELETE CASCADE;
ALTER TABLE ONLY redrive.runs
    ADD CONSTRAINT runs_owner_fkey FOREIGN KEY (owner) REFERENCES redrive.incarnations(id) ON DELETE SET NULL;
ALTER TABLE ONLY redrive.saved_messages
    ADD CONSTRAINT saved_messages_save_fkey FOREIGN KEY (save) REFERENCES redrive.saves(id) ON DELETE CASCADE;
ALTER TABLE ONLY redrive.saves
    ADD CONSTRAINT saves_owner_fkey FOREIGN KEY (owner) REFERENCES redrive.incarnations(id) ON DELETE SET NULL;
ALTER TABLE ONLY redrive.subscriptions
    ADD CONSTRAINT subscriptions_type_fkey FOREIGN KEY (type) REFERENCES redrive.event_types(name);
ALTER TABLE ONLY redrive.unbindings
    ADD CONSTRAINT unbindings_owner_fkey FOREIGN KEY (owner) REFERENCES redrive.incarnations(id) ON DELETE SET NULL;
