/**
 * Checks as they are registered, and those that a sidecar gets by default.
 *
 * @module
 */

import type { NewService } from "./catalog.ts";
import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { durationAt, objectAt, textAt } from "../http/fields.ts";
import type { Status } from "./records.ts";
import { Refusal } from "../http/refusal.ts";

/** A check as registered; how it runs is `health_checks.ts`'s. */
export interface CheckDefinition {
  readonly id: string;
  readonly name: string;
  readonly notes: string;
  readonly serviceId: string;
  readonly serviceName: string;
  readonly serviceTags: readonly string[];
  /** Given in the registration; otherwise an older check of that id keeps its own. */
  readonly status: Status | undefined;
  readonly kind:
    | { readonly kind: "ttl"; readonly ttlMs: number }
    | { readonly kind: "tcp"; readonly host: string; readonly port: number }
    | { readonly kind: "http"; readonly url: string }
    | { readonly kind: "alias"; readonly serviceId: string };
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** As written, for the JSON. */
  readonly interval: string;
  readonly timeout: string;
}

/** The checks of a registration body. */
export function readChecks(body: JsonObject, service: NewService): readonly CheckDefinition[] {
  const many = Array.isArray(body["Checks"]) ? body["Checks"] as readonly Json[] : [];
  const all = [body["Check"] ?? null, ...many].filter(isObject);
  return all.map((check, at) => readCheck(check, service, all.length > 1 ? `:${at + 1}` : ""));
}

function readCheck(check: JsonObject, service: NewService, suffix: string): CheckDefinition {
  const intervalMs = durationAt(check, "Interval");
  const kind = kindOf(check);
  if (kind.kind !== "ttl" && kind.kind !== "alias" && intervalMs <= 0) {
    throw new Refusal(
      400,
      "Invalid check: Interval must be > 0 for Script, HTTP, H2PING, TCP, UDP or OSService checks",
    );
  }
  const status = textAt(check, "Status");
  if (!["", "passing", "warning", "critical"].includes(status)) {
    throw new Refusal(400, "Status for checks must 'passing', 'warning', 'critical'");
  }
  return {
    id: textAt(check, "CheckID") || textAt(check, "ID") || `service:${service.id}${suffix}`,
    name: textAt(check, "Name") || `Service '${service.name}' check`,
    notes: textAt(check, "Notes"),
    ...forService(service),
    status: status === "" ? undefined : status as Status,
    kind,
    intervalMs,
    timeoutMs: durationAt(check, "Timeout") || 10_000,
    interval: textAt(check, "Interval"),
    timeout: textAt(check, "Timeout"),
  };
}

function kindOf(check: JsonObject): CheckDefinition["kind"] {
  const tcp = textAt(check, "TCP");
  if (tcp !== "") {
    const colon = tcp.lastIndexOf(":");
    const host = tcp.slice(0, colon).replace(/^\[|\]$/g, "");
    return { kind: "tcp", host, port: Number(tcp.slice(colon + 1)) };
  }
  if (textAt(check, "HTTP") !== "") return { kind: "http", url: textAt(check, "HTTP") };
  const alias = textAt(check, "AliasService");
  if (alias !== "") return { kind: "alias", serviceId: alias };
  const ttlMs = durationAt(check, "TTL");
  if (ttlMs <= 0) throw new Refusal(400, "Invalid check: TTL must be > 0 for TTL checks");
  return { kind: "ttl", ttlMs };
}

/** What a sidecar without checks gets: its listener, and an alias of its application. */
export function defaultChecks(app: NewService, proxy: NewService): readonly CheckDefinition[] {
  const config = objectAt(proxy.proxy ?? {}, "Config");
  const host = proxy.address || textAt(config, "bind_address") ||
    textAt(proxy.proxy ?? {}, "LocalServiceAddress") || "127.0.0.1";
  const shared = {
    notes: "",
    ...forService(proxy),
    status: undefined,
    timeoutMs: 10_000,
    timeout: "",
  };
  return [{
    ...shared,
    id: `service:${proxy.id}:1`,
    name: "Connect Sidecar Listening",
    kind: { kind: "tcp", host, port: proxy.port },
    intervalMs: 10_000,
    interval: "10s",
  }, {
    ...shared,
    id: `service:${proxy.id}:2`,
    name: `Connect Sidecar Aliasing ${app.id}`,
    kind: { kind: "alias", serviceId: app.id },
    intervalMs: 0,
    interval: "",
  }];
}

function forService(service: NewService) {
  return { serviceId: service.id, serviceName: service.name, serviceTags: service.tags };
}
