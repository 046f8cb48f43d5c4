/** The events of a snapshot that came into force: its differences to the one before. Pure. @module */

import type { NewEvent } from "../base/mod.ts";
import type { Intention, Permission } from "../policy/mod.ts";
import type { PublishEffect } from "../proxy/mod.ts";
import { sameContent, type Snapshot } from "../snapshot/mod.ts";
import { chainEvents } from "./chain_events.ts";
import { endpointEvents } from "./endpoint_events.ts";
import { listenerEvents } from "./listener_events.ts";

/** `before` and `after` are published one after the other. */
export function snapshotEvents(
  before: Snapshot,
  after: Snapshot,
  effects: readonly PublishEffect[] = [],
): readonly NewEvent[] {
  return [
    ...registrationEvents(before, after),
    ...intentionEvents(before, after, effects),
    ...credentialEvents(before, after, effects),
    ...listenerEvents(before, after),
    ...chainEvents(before, after),
    ...endpointEvents(before, after),
  ];
}

/** The event of a snapshot without another before. */
export function firstSnapshotEvent({ service, proxyId, policy, upstreams }: Snapshot): NewEvent {
  const [intentions, count] = [policy.intentions.length, Object.keys(upstreams).length];
  return {
    kind: "source",
    subject: proxyId,
    text: `first snapshot of ${service || proxyId} in force: intentions ${intentions}, ` +
      `default ${policy.defaultAction}, upstreams ${count}`,
    isLogged: true,
  };
}

function registrationEvents(before: Snapshot, after: Snapshot): NewEvent[] {
  const names = ["service", "proxyId", "datacenter"] as const;
  return names.filter((name) => before[name] !== after[name]).map((name) => ({
    kind: "source",
    subject: after.proxyId,
    text: `${name} changed from ${before[name]} to ${after[name]}`,
  }));
}

/** More than these are summed up. */
const INTENTIONS_SHOWN = 20;

function intentionEvents(
  { policy: before }: Snapshot,
  { policy: after, service }: Snapshot,
  effects: readonly PublishEffect[],
): NewEvent[] {
  if (before.version === after.version) return [];
  const denied = effects.filter(({ code }) => code === "intention_denied");
  const taken = new Set<PublishEffect>();
  /** Each ended connection is the effect of one event. */
  const effectOf = (isMeant: (effect: PublishEffect) => boolean) => {
    const mine = denied.filter((effect) => !taken.has(effect) && isMeant(effect));
    for (const effect of mine) taken.add(effect);
    return effectText(mine);
  };
  const [old, now] = [byPair(before.intentions, service), byPair(after.intentions, service)];
  const events: NewEvent[] = [];
  const kind = "intention";
  for (const [subject, rules] of now) {
    const was = old.get(subject);
    if (was && sameContent(was, rules)) continue;
    const [[intention], [oldIntention]] = [rules, was ?? []];
    if (!intention) continue;
    const effect = effectOf(({ rule }) => begins(rule, intention));
    events.push({ kind, subject, text: intentionText(subject, oldIntention, intention), effect });
  }
  const removed = [...old].filter(([subject]) => !now.has(subject));
  for (const [subject, [intention]] of removed) {
    if (!intention) continue;
    const effect = effectOf(({ ruleBefore }) => begins(ruleBefore, intention));
    const text = `${actionFor(intention)} ${subject} removed`;
    events.push({ kind, subject, text, effect });
  }
  if (before.defaultAction !== after.defaultAction) {
    events.push({
      kind,
      subject: `* => ${service}`,
      text: `default ${before.defaultAction} to default ${after.defaultAction}`,
      effect: effectOf(({ rule }) => rule.startsWith("default ")),
      severity: after.defaultAction === "allow" ? "warn" : "info",
    });
  }
  if (events.length <= INTENTIONS_SHOWN) return events;
  const added = now.size - (old.size - removed.length);
  const counts = `${added} added, ${removed.length} removed`;
  return [{
    kind,
    subject: `* => ${service}`,
    text: `${events.length} intentions changed (${counts}); ${now.size} in force`,
    effect: effectText(denied),
  }];
}

/** Intentions by source and destination; permissions come with a denial of the same name. */
function byPair(
  intentions: readonly Intention[],
  service: string,
): ReadonlyMap<string, readonly Intention[]> {
  const pairs = new Map<string, Intention[]>();
  for (const intention of intentions) {
    const pair = pairOf(intention, service);
    const known = pairs.get(pair);
    if (known) known.push(intention);
    else pairs.set(pair, [intention]);
  }
  return pairs;
}

/** The text of the rule at the start: permissions add theirs at its end. */
export function begins(rule: string, { rule: named }: Intention): boolean {
  return rule === named || rule.startsWith(named.replace(/(?:permissions)?\)$/, ""));
}

/** `web => db`: without what is default. */
export function pairOf({ rule, source }: Intention, service: string): string {
  const [, from = "", to = ""] = /^(.+) => (.+?)(?: \(.*\))?$/s.exec(rule) ?? [];
  const short = (name: string) => name.replace(/^default\//, "");
  return `${short(from) || source.name} => ${short(to) || service}`;
}

function actionOf({ action, permissions = [], refused }: Intention): string {
  if (refused !== undefined) return "deny (it cannot be followed)";
  return action === "permissions" ? permissionsText(permissions) : action;
}

/** Permissions that are named, in their order. */
const PERMISSIONS_SHOWN = 4;

/** `2 permissions (allow GET /orders*, deny /admin*)`: without header values, which may be tokens. */
function permissionsText(permissions: readonly Permission[]): string {
  const named = permissions.slice(0, PERMISSIONS_SHOWN).map((permission) => {
    const { action, methods, path, headers, tokens = [], refused } = permission;
    const words = [
      refused === undefined ? action : "deny",
      methods.join("|"),
      path ? `${path.kind === "regex" ? "~" : ""}${path.value}${star(path)}` : "",
      ...headers.map(({ name }) => `header ${name}`),
      tokens.length > 0 ? "with a token" : "",
    ].filter((word) => word !== "");
    const text = words.join(" ");
    return text.length > PERMISSION_CHARS ? `${text.slice(0, PERMISSION_CHARS)}...` : text;
  });
  const count = permissions.length;
  const more = count - named.length;
  const list = [...named, ...more > 0 ? [`${more} more`] : []].join(", ");
  return `${count} permission${count === 1 ? "" : "s"}${list && ` (${list})`}`;
}

const PERMISSION_CHARS = 80;

function star({ kind }: { readonly kind: string }): string {
  return kind === "prefix" ? "*" : "";
}

function intentionText(pair: string, was: Intention | undefined, now: Intention): string {
  if (!was) return `${actionFor(now)} ${pair} added`;
  const [old, next] = [actionOf(was), actionOf(now)];
  if (old === next) return `${actionFor(now)} ${pair} changed`;
  return `${pair} changed from ${old} to ${next}`;
}

/** Before the name of the pair. */
function actionFor(intention: Intention): string {
  return `${actionOf(intention)}${intention.action === "permissions" ? " for" : ""}`;
}

export function effectText(effects: readonly PublishEffect[]): string {
  const sum = (name: "connections" | "requests") =>
    effects.reduce((all, effect) => all + effect[name], 0);
  return [
    countText(sum("connections"), "open connection", "ended"),
    countText(sum("requests"), "open request", "ended"),
  ].filter((text) => text !== "").join(", ");
}

function countText(count: number, what: string, ended: string): string {
  return count === 0 ? "" : `${count} ${what}${count === 1 ? "" : "s"} ${ended}`;
}

function credentialEvents(
  before: Snapshot,
  after: Snapshot,
  effects: readonly PublishEffect[],
): NewEvent[] {
  const events: NewEvent[] = [];
  const [old, now] = [before.credentials, after.credentials];
  const ended = effectText(effects.filter(({ code }) => code !== "intention_denied"));
  const certificate = (subject: string, text: string, isLogged = false): void => {
    events.push({ kind: "certificate", subject, text, ...isLogged && { isLogged: true } });
  };
  if (old && now && old.certPem !== now.certPem) {
    const id = old.uri === now.uri ? "" : `, identity ${old.uri} to ${now.uri}`;
    const until = new Date(now.notAfterMs).toISOString();
    certificate(
      "leaf",
      `certificate renewed, serial ${now.serial}, valid until ${until}${id}`,
      true,
    );
  }
  if (old && now) {
    const gone = old.rootPems.filter((pem) => !now.rootPems.includes(pem)).length;
    const come = now.rootPems.filter((pem) => !old.rootPems.includes(pem)).length;
    if (gone + come > 0) {
      const text = `roots rotated: ${come} added, ${gone} removed, ${now.rootPems.length} in force`;
      certificate("roots", text, true);
    }
  }
  if (!sameParts(before.tls, after.tls)) {
    const { incoming, outgoing } = after.tls;
    const versions = ({ minVersion, maxVersion }: typeof incoming) =>
      `${minVersion} to ${maxVersion}`;
    certificate("tls", `TLS settings changed: ${versions(incoming)} in, ${versions(outgoing)} out`);
  }
  const [last] = events.slice(-1);
  return last && ended !== "" ? [...events.slice(0, -1), { ...last, effect: ended }] : events;
}

function sameParts(a: { readonly version: number } | null, b: typeof a): boolean {
  return a?.version === b?.version;
}
