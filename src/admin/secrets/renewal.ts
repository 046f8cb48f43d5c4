/** The renewal of a certificate in use: its source, when it is due, and whether it would work now. @module */

import { formatSpanMs } from "../../base/mod.ts";
import type { SecretStatus } from "../../secrets/mod.ts";
import type { AdminView } from "../view.ts";
import { dateText } from "./certificate_facts.ts";

export interface Renewal {
  /** `the agent's watch`, `the stream of sds spire`, `the watch of file /etc/tls/web.pem`. */
  readonly by: string;
  /** Nothing failed at its last attempt. */
  readonly works: boolean;
  /** Why it does not work; `""`: it does. */
  readonly fault: string;
  /** Time of the last good answer or the last change; `null`: none, or not known. */
  readonly lastAnswer: string | null;
  /** The renewal begins at some time in this span; `null`: its source decides. */
  readonly due: { readonly from: string; readonly to: string } | null;
  /** All of this in one sentence. */
  readonly text: string;
}

/** Shares of the lifetime: an agent renews between 60 and 90 %, this proxy beside servers between 50 and 65 %. */
const DUE = { agent: [0.6, 0.9], servers: [0.5, 0.65] } as const;

interface Dates {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** The renewal of the proxy's certificate that Consul signs. */
export function renewalByConsul(
  view: Pick<AdminView, "source" | "clock">,
  { notBeforeMs, notAfterMs }: Dates,
): Renewal {
  const source = view.source();
  const by = source?.servers ? "this proxy, signed by Consul's servers" : "the agent's watch";
  const watch = source?.watches.find(({ name }) => name.startsWith("leaf "));
  const [from, to] = source?.servers ? DUE.servers : DUE.agent;
  const at = (share: number) => minuteText(notBeforeMs + (notAfterMs - notBeforeMs) * share);
  const ageMs = watch?.lastSuccessMs === undefined
    ? undefined
    : view.clock.monotonic() - watch.lastSuccessMs;
  return described({
    by,
    fault: watch
      ? watch.failures === 0 ? "" : watch.lastError ?? "its last attempt failed"
      : "it has not begun",
    lastAnswer: ageMs === undefined ? null : dateText(view.clock.now() - ageMs),
    due: { from: at(from), to: at(to) },
  }, ageMs === undefined ? "no answer yet" : `last answer ${formatSpanMs(ageMs)} ago`);
}

/** The renewal of a certificate from a file or a server; `undefined`: it is no followed secret. */
export function renewalOfSecret(status: SecretStatus | undefined): Renewal | undefined {
  if (!status) return undefined;
  const { source, fault, updatedMs } = status;
  const [kind = ""] = source.split(" ");
  const isFixed = kind === "configuration" || kind === "environment";
  const lastAnswer = updatedMs === 0 ? null : dateText(updatedMs);
  return described({
    by: isFixed
      ? "nothing: it is part of the configuration"
      : `the ${kind === "file" ? "watch" : "stream"} of ${source}`,
    fault,
    lastAnswer,
    due: null,
  }, lastAnswer === null ? "nothing came yet" : `last change ${minuteText(updatedMs)}`);
}

function described(facts: Omit<Renewal, "works" | "text">, last: string): Renewal {
  const { by, fault, due } = facts;
  const text = [
    `renewed by ${by}`,
    last,
    ...due ? [`due ${due.from} to ${due.to}`] : [],
    ...fault === "" ? [] : [`it fails: ${fault}`],
  ].join(", ");
  return { ...facts, works: fault === "", text };
}

/** `2026-11-29T11:54Z`. */
function minuteText(atMs: number): string {
  return dateText(atMs).replace(/:\d\d(?:\.\d+)?Z$/, "Z");
}
