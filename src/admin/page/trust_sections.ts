/** The panels about trust: intentions, certificates and other secrets. @module */

import { html } from "hono/html";
import type { SecretStatus } from "../../secrets/mod.ts";
import { dateText, isNearExpiry, timeLeft } from "../secrets/certificate_facts.ts";
import type { CertificateShown } from "../secrets/certs.ts";
import type { PageData } from "./page_data.ts";
import { gauge, type Html, mark, moreText, panel, type PanelRow, table } from "./panel.ts";
import { countText } from "./texts.ts";

export function certificatesSection({ certificates: { rows, more }, atMs }: PageData): Html {
  return panel(
    "certificates",
    "Certificates",
    rows.length === 0 ? html`<p class="empty">This proxy has no certificate yet.</p>` : [
      table(
        "Certificates in use, the first to expire first",
        [{ name: "name" }, { name: "time left" }],
        rows.map((row, at) => certificateRow(row, { at, atMs })),
      ),
      moreText(more, "/certs"),
    ],
  );
}

function certificateRow(
  row: CertificateShown,
  { at, atMs }: { readonly at: number; readonly atMs: number },
): PanelRow {
  const { kind, name, source, names, notBeforeMs, notAfterMs } = row;
  const level = notAfterMs < atMs ? "bad" : row.isNearExpiry ? "warn" : "";
  const left = (notAfterMs - atMs) / Math.max(1, notAfterMs - notBeforeMs);
  return {
    key: `${kind} ${name} ${source} ${at}`,
    cells: [
      html`${name} <span class="sub">${kind} from ${source}</span>${
        names.map((name) => html`<span class="sub">${name}</span>`)
      }`,
      html`${level === "" ? "" : mark({ level, word: level === "bad" ? "expired" : "soon" })}
        ${timeLeft(row, atMs)}${gauge(left, level)}`,
    ],
  };
}

/** `""` where all credentials come from the agent. */
export function secretsSection({ secrets: { rows, more }, warming, atMs }: PageData): Html | "" {
  if (rows.length === 0 && warming.length === 0) return "";
  return panel("secrets", "Secrets", [
    warming.length === 0 ? "" : html`
      <p class="note">Not open yet:</p>
      <ul>${warming.map((text) => html`<li>${text}</li>`)}</ul>
    `,
    table(
      "Secrets that do not come from the agent, missing and failing ones first",
      [
        { name: "name" },
        { name: "state" },
        { name: "version", kind: "less" },
        { name: "expires" },
      ],
      rows.map((status) => secretRow(status, atMs)),
    ),
    moreText(more, "/config_dump"),
  ]);
}

const SECRET_LEVELS = { active: "ok", warming: "warn", missing: "bad" } as const;

function secretRow(status: SecretStatus, atMs: number): PanelRow {
  const { key, name, source, state, version, certificate, fault } = status;
  const level = fault === "" ? SECRET_LEVELS[state] : "bad";
  return {
    key,
    cells: [
      html`${name}<span class="sub">${source}</span>`,
      html`${mark({ level, word: state })}${
        fault === "" ? "" : html`<span class="sub bad">${fault}</span>`
      }`,
      version,
      certificate
        ? html`${
          expiryText(certificate, atMs)
        }<span class="sub">serial ${certificate.serial}</span>`
        : "",
    ],
  };
}

function expiryText(certificate: NonNullable<SecretStatus["certificate"]>, nowMs: number): string {
  const until = dateText(certificate.notAfterMs).replace(/:\d\d\.\d+Z$/, "Z").replace("T", " ");
  const left = `${until}, ${timeLeft(certificate, nowMs)}`;
  if (nowMs > certificate.notAfterMs) return `${left}: EXPIRED`;
  return isNearExpiry(certificate, nowMs) ? `${left}: soon` : left;
}

const ACTIONS = { allow: "ok", deny: "bad" } as const;

export function intentionsSection({ intentions: { rows, more }, defaultAction }: PageData): Html {
  return panel("intentions", html`Intentions in force <small>requests since the start</small>`, [
    rows.length === 0 ? "" : table(
      "Intentions in force, the first match decides",
      [
        { name: "source" },
        { name: "action" },
        { name: "requests", kind: "number" },
        { name: "of the last refusals", kind: "number less" },
      ],
      rows.map(({ source, action, rule, requests, refused }, at) => ({
        key: `${rule} ${at}`,
        cells: [
          html`${source === "*" ? "any service" : source}<span class="sub">${rule}</span>`,
          mark({ level: ACTIONS[action as keyof typeof ACTIONS] ?? "idle", word: action }),
          countText(requests),
          countText(refused),
        ],
      })),
    ),
    moreText(more, "/config_dump"),
    defaultAction === ""
      ? html`<p class="empty">No intention has been read yet, so nobody may call.</p>`
      : html`<p class="more">${rows.length === 0 ? "None. All" : "All other"} callers: ${
        mark({
          level: ACTIONS[defaultAction as keyof typeof ACTIONS] ?? "idle",
          word: defaultAction,
        })
      } by default</p>`,
  ]);
}
