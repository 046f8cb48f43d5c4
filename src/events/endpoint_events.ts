/** Events of instances as the catalog has them. Pure. @module */

import { instanceName } from "../balance/mod.ts";
import { formatAddress, type NewEvent } from "../base/mod.ts";
import type { Snapshot, TargetPart } from "../snapshot/mod.ts";
import { targetName } from "./chain_events.ts";

/** Changes of one target that are listed; more are counted. */
const SHOWN = 10;

type Instance = TargetPart["unhealthy"][number];

export function endpointEvents(before: Snapshot, after: Snapshot): NewEvent[] {
  const events: NewEvent[] = [];
  /** An instance is in every subset that it belongs to. */
  const seen = new Set<string>();
  for (const [key, target] of Object.entries(after.targets)) {
    const was = before.targets[key];
    if (!was || was.version === target.version) continue;
    const subject = targetName(key, { name: "", datacenter: after.datacenter });
    const service = subject.split(".").at(-1) ?? "";
    const changes = changesOf(was, target).filter(({ text }) => !seen.has(`${service} ${text}`));
    for (const { text } of changes) seen.add(`${service} ${text}`);
    const effect = effectOf(was, target);
    const isGone = target.endpoints.length === 0 && was.endpoints.length > 0;
    if (changes.length > SHOWN) {
      const severity = isGone ? "error" : worstOf(changes);
      events.push({ kind: "endpoint", subject, text: summaryOf(changes), effect, severity });
      continue;
    }
    for (const [at, { text, severity }] of changes.entries()) {
      const isLast = at === changes.length - 1;
      events.push({
        kind: "endpoint",
        subject,
        text,
        severity: isLast && isGone ? "error" : severity,
        ...isLast && effect !== "" && { effect },
      });
    }
  }
  return events;
}

interface Change {
  readonly kind: "added" | "removed" | "critical" | "passing" | "moved";
  readonly text: string;
  readonly severity: "info" | "warn";
}

function changesOf(was: TargetPart, now: TargetPart): Change[] {
  const changes: Change[] = [];
  const usable = new Map(was.endpoints.map((one) => [one.id, one]));
  const failing = new Map(was.unhealthy.map((one) => [one.id, one]));
  const add = (kind: Change["kind"], text: string) =>
    changes.push({ kind, text, severity: kind === "critical" ? "warn" : "info" });
  for (const one of now.endpoints) {
    const old = usable.get(one.id);
    if (!old) {
      const isBack = failing.has(one.id);
      if (isBack) add("passing", `${instanceName(one)} passing`);
      else add("added", `${instanceName(one)} added at ${addressOf(one)}`);
    } else if (addressOf(old) !== addressOf(one)) {
      add("moved", `${instanceName(one)} moved from ${addressOf(old)} to ${addressOf(one)}`);
    } else if (old.weight !== one.weight) {
      add("moved", `weight of ${instanceName(one)} ${old.weight} to ${one.weight}`);
    }
  }
  for (const one of now.unhealthy) {
    if (failing.has(one.id)) continue;
    const why = one.checks && one.checks.length > 0 ? ` (${one.checks.join(", ")})` : "";
    add("critical", `${instanceName(one)} critical${why}`);
  }
  const present = new Set([...now.endpoints, ...now.unhealthy].map(({ id }) => id));
  for (const one of [...was.endpoints, ...was.unhealthy]) {
    if (!present.has(one.id)) add("removed", `${instanceName(one)} removed`);
  }
  return changes;
}

function summaryOf(changes: readonly Change[]): string {
  const kinds = ["added", "removed", "critical", "passing", "moved"] as const;
  return kinds.map((kind) => ({ kind, count: changes.filter((one) => one.kind === kind).length }))
    .filter(({ count }) => count > 0).map(({ kind, count }) => `${count} ${kind}`).join(", ");
}

function worstOf(changes: readonly Change[]): Change["severity"] {
  return changes.some(({ severity }) => severity === "warn") ? "warn" : "info";
}

function effectOf(was: TargetPart, now: TargetPart): string {
  if (was.endpoints.length === now.endpoints.length) return "";
  const count = now.endpoints.length;
  if (count === 0) return `no usable instance: ${now.lack}`;
  const isOne = count === 1;
  if (was.endpoints.length === 0) return `first instance${isOne ? "" : "s"}: ${count} usable`;
  return `${count} usable instance${isOne ? "" : "s"}, ${was.endpoints.length} before`;
}

function addressOf({ host, port }: Instance): string {
  return formatAddress({ kind: "tcp", host, port });
}
