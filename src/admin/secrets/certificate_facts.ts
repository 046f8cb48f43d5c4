/** Names and dates of certificates, read once per part of a snapshot: parts never change. @module */

import { formatSpanMs, messageOf } from "../../base/mod.ts";
import { altNamesOf, parseCertificate } from "../../identity/mod.ts";
import { parsePem } from "../../wire/mod.ts";

const DAY_MS = 86_400_000;
/** Shares of the lifetime, as for the warnings in the log. */
const NEAR_EXPIRY = 1 / 3;
/** Agents renew a leaf at some time between 60 and 90 % of its life. */
export const NEAR_EXPIRY_OF_AGENT_LEAF = 1 / 12;

export interface CertificateFacts {
  /** Lower-case hex of each byte, joined by colons. */
  readonly serial: string;
  readonly dnsNames: readonly string[];
  readonly uris: readonly string[];
  readonly ips: readonly string[];
  readonly emails: readonly string[];
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

type PemFacts =
  | { readonly kind: "read"; readonly certificates: readonly CertificateFacts[] }
  | { readonly kind: "failed"; readonly error: string };

const known = new WeakMap<object, Map<string, PemFacts>>();

/** Every certificate of `pem`, which `part` holds under the name `what`. */
export function factsOfPem(part: object, what: string, pem: string): PemFacts {
  let facts = known.get(part);
  if (!facts) known.set(part, facts = new Map());
  let read = facts.get(what);
  if (!read) facts.set(what, read = readPem(pem, what));
  return read;
}

/** Two decimals; negative: expired. */
export function daysLeft({ notAfterMs }: Dates, nowMs: number): number {
  return Math.floor((notAfterMs - nowMs) / DAY_MS * 100) / 100;
}

/** `expires in 3h12m`, `expired 2d ago`. */
export function timeLeft({ notAfterMs }: Dates, nowMs: number): string {
  const leftMs = notAfterMs - nowMs;
  return leftMs < 0 ? `expired ${formatSpanMs(-leftMs)} ago` : `expires in ${formatSpanMs(leftMs)}`;
}

/** Whole days, 0 when expired. */
export function wholeDaysLeft({ notAfterMs }: Dates, nowMs: number): number {
  return Math.max(Math.floor((notAfterMs - nowMs) / DAY_MS), 0);
}

/** At most this share of the lifetime is left. */
export function isNearExpiry(
  { notBeforeMs, notAfterMs }: Dates,
  nowMs: number,
  share = NEAR_EXPIRY,
): boolean {
  return nowMs >= notAfterMs - (notAfterMs - notBeforeMs) * share;
}

/** Dates of certificates reach beyond what JavaScript can print. */
export function dateText(atMs: number): string {
  return Math.abs(atMs) <= 8.64e15 ? new Date(atMs).toISOString() : "never";
}

interface Dates {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

function readPem(pem: string, what: string): PemFacts {
  try {
    const blocks = parsePem(pem, { what }).filter(({ label }) => label === "CERTIFICATE");
    return { kind: "read", certificates: blocks.map(({ der }) => factsOf(der)) };
  } catch (error) {
    return { kind: "failed", error: messageOf(error) };
  }
}

function factsOf(der: Uint8Array): CertificateFacts {
  const certificate = parseCertificate(der);
  const { serial, notBeforeMs, notAfterMs } = certificate;
  const { dns, uris, ips, emails } = altNamesOf(certificate);
  return { serial, dnsNames: dns, uris, ips, emails, notBeforeMs, notAfterMs };
}
