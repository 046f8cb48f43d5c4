/**
 * The section about secrets of the page at `/`: state, version, expiry, and listeners that wait for one.
 *
 * @module
 */

import { html } from "hono/html";
import type { SecretStatus } from "../../secrets/mod.ts";
import { dateText, isNearExpiry, timeLeft } from "./certificate_facts.ts";
import type { AdminView } from "../view.ts";

/** There may be a thousand certificates fetched on demand; `/config_dump` has all. */
const SECRETS_SHOWN = 200;
/** Missing and failing secrets come first. */
const ORDER = ["missing", "warming", "active"] as const;

type Html = ReturnType<typeof html>;

/** `""` where all credentials come from the agent. */
export function secretsSection(view: AdminView): Html | "" {
  const { statuses } = view.secretsReport();
  const warming = view.source()?.warming ?? [];
  if (statuses.length === 0 && warming.length === 0) return "";
  const nowMs = view.clock.now();
  const shown = [...statuses].sort((a, b) => rank(a) - rank(b)).slice(0, SECRETS_SHOWN);
  const more = statuses.length - shown.length;
  return html`
    <h2>Secrets</h2>
    ${warming.length === 0 ? "" : html`
      <p>Not open yet:</p>
      <ul>${warming.map((text) => html`<li>${text}</li>`)}</ul>
    `}
    <table class="secrets">
      <tr><th>name</th><th>source</th><th>state</th><th>version</th><th>serial</th><th>expires</th></tr>
      ${shown.map((status) => rowsOf(status, nowMs))}
    </table>
    ${more === 0
      ? ""
      : html`<p>and ${String(more)} more, in <a href="/config_dump">/config_dump</a></p>`}
  `;
}

function rowsOf(status: SecretStatus, nowMs: number): Html {
  const { name, source, state, version, certificate, fault } = status;
  return html`
    <tr>
      <td>${name}</td>
      <td title="source">${source}</td>
      <td title="state">${state}</td>
      <td title="version">${version}</td>
      <td title="serial">${certificate?.serial ?? ""}</td>
      <td title="expires">${certificate ? expiryText(certificate, nowMs) : ""}</td>
    </tr>
    ${fault === "" ? "" : html`
      <tr>
        <td colspan="6" class="bad">${fault}</td>
      </tr>
    `}
  `;
}

function expiryText(
  certificate: NonNullable<SecretStatus["certificate"]>,
  nowMs: number,
): string {
  const until = dateText(certificate.notAfterMs).replace(/:\d\d\.\d+Z$/, "Z").replace("T", " ");
  const left = `${until}, ${timeLeft(certificate, nowMs)}`;
  if (nowMs > certificate.notAfterMs) return `${left}: EXPIRED`;
  return isNearExpiry(certificate, nowMs) ? `${left}: soon` : left;
}

function rank({ state, fault }: SecretStatus): number {
  return fault === "" ? ORDER.indexOf(state) + ORDER.length : ORDER.indexOf(state);
}
