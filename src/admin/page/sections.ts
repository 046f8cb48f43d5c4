/** The panels of the page at `/`, one function each. @module */

import { html } from "hono/html";
import { formatSpanMs } from "../../base/mod.ts";
import type { SecretStatus } from "../../secrets/mod.ts";
import { dateText, isNearExpiry, timeLeft } from "../secrets/certificate_facts.ts";
import type { CertificateShown } from "../secrets/certs.ts";
import type { ConnectionRow, PageData } from "./page_data.ts";
import type { StateShown, UpstreamShown } from "./upstreams_shown.ts";

export type Html = ReturnType<typeof html>;
type Text = Html | string;

interface Column {
  readonly name: string;
  /** `number` is aligned to the right, `less` is left out on narrow screens. */
  readonly kind?: "number" | "less" | "number less" | "time";
}

interface Row {
  /** Identifies the row among those of its table from one reading to the next. */
  readonly key: string;
  /** The first is the row's heading. */
  readonly cells: readonly Text[];
}

function panel(id: string, title: Text, content: Text | readonly Text[]): Html {
  return html`
    <section class="panel" aria-labelledby="${id}">
      <h2 id="${id}">${title}</h2>
      ${content}
    </section>
  `;
}

function table(caption: string, columns: readonly Column[], rows: readonly Row[]): Html {
  const kindAt = (at: number) => columns[at]?.kind ?? "";
  return html`
    <table>
      <caption class="unseen">${caption}</caption>
      <thead>
        <tr>${columns.map(({ name, kind = "" }) =>
          html`<th scope="col" class="${kind}">${name}</th>`
        )}</tr>
      </thead>
      <tbody>${rows.map(({ key, cells }) =>
        html`<tr data-key="${key}">${
          cells.map((cell, at) =>
            at === 0
              ? html`<th scope="row" class="${kindAt(at)}">${cell}</th>`
              : html`<td class="${kindAt(at)}">${cell}</td>`
          )
        }</tr>`
      )}</tbody>
    </table>
  `;
}

function mark({ level, word }: StateShown): Html {
  return html`<span class="mark ${level}">${word}</span>`;
}

function moreText(more: number, path: string): Text {
  return more === 0
    ? ""
    : html`<p class="more">and ${String(more)} more, in <a href="${path}">${path}</a></p>`;
}

/** `850 ms`, `12s`, `3h12m`. */
function spanText(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : formatSpanMs(ms);
}

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB", "PB"] as const;

/** `0 B`, `1.2 kB`, `340 MB`. */
export function bytesText(bytes: number): string {
  let amount = bytes;
  let unit = 0;
  while (amount >= 999.5 && unit < BYTE_UNITS.length - 1) {
    amount /= 1_000;
    unit++;
  }
  return `${unit > 0 && amount < 9.95 ? amount.toFixed(1) : Math.round(amount)} ${
    BYTE_UNITS[unit]
  }`;
}

function gauge(share: number, level = ""): Html {
  const part = Math.round(Math.min(1, Math.max(0, share)) * 100);
  return html`
    <svg class="bar ${level}" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rest" width="100" height="4" rx="2" />
      <rect class="part" width="${String(part)}" height="4" rx="2" />
    </svg>
  `;
}

export function upstreamsSection({ upstreams: { rows, more } }: PageData): Html {
  return panel(
    "upstreams",
    "Upstreams",
    rows.length === 0
      ? html`<p class="empty">This service declares no upstream.</p>`
      : [...rows.map(upstreamShown), moreText(more, "/clusters")],
  );
}

function upstreamShown(upstream: UpstreamShown): Html {
  const { id, name, address, protocol, state, routes, moreRoutes, targets } = upstream;
  const details = [protocol, address && `at ${address}`].filter((part) => part).join(" ");
  const hasChoice = routes.length > 1 || routes.some(({ splits }) => splits.length > 1);
  return html`
    <article class="upstream" data-key="${id}" aria-label="upstream ${name}">
      <h3>${name} ${mark(state)} <small>${details}</small></h3>
      ${hasChoice ? routesTable(upstream) : ""}
      ${moreRoutes === 0 ? "" : html`<p class="more">and ${String(moreRoutes)} more routes</p>`}
      ${targets.map((target) => targetShown(target, name))}
    </article>
  `;
}

function routesTable({ name, routes }: UpstreamShown): Html {
  return table(
    `Routes of ${name}, the first match wins`,
    [{ name: "requests" }, { name: "go to" }],
    routes.map((route, at) => ({
      key: String(at),
      cells: [
        html`<code>${route.matches}</code>`,
        html`${
          route.splits.map(({ share, targets: [first = "", ...rest] }) =>
            html`<div class="split"><span class="share">${sharePart(share)}</span> ${first}${
              rest.length === 0 ? "" : html`<span class="sub">then ${rest.join(", then ")}</span>`
            }</div>`
          )
        }`,
      ],
    })),
  );
}

function sharePart(share: number): Text {
  if (share === 1) return "";
  const percent = Math.round(share * 1_000) / 10;
  return html`
    <svg viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rest" width="100" height="20" rx="10" />
      <rect class="part" width="${String(percent)}" height="20" rx="10" />
    </svg>${String(percent)} %
  `;
}

function targetShown(
  { name, lack, endpoints, more }: UpstreamShown["targets"][number],
  upstream: string,
): Html {
  const total = endpoints.length + more;
  return html`
    ${endpoints.length === 0
      ? html`<p class="note">${name}: no endpoint${lack === "" ? "" : html`: ${lack}`}</p>`
      : table(
        `Endpoints of ${name} for ${upstream}`,
        [
          { name: total === 1 ? name : `${name}, ${total} endpoints` },
          { name: "state" },
          { name: "active", kind: "number" },
          { name: "weight", kind: "number less" },
        ],
        endpoints.map(({ id, address, weight, active, state, why }) => ({
          key: `${id} ${address}`,
          cells: [
            html`<span class="mono">${address}</span>${
              id === address ? "" : html`<span class="sub">${id}</span>`
            }`,
            html`${mark(state)}${
              why === "" ? "" : html`<span class="sub ${state.level}">${why}</span>`
            }`,
            String(active),
            String(weight),
          ],
        })),
      )}
    ${more === 0 ? "" : moreText(more, "/clusters")}
  `;
}

export function connectionsSection({ connections }: PageData): Html {
  const { rows, more, inbound, outbound } = connections;
  return panel(
    "connections",
    html`Open connections <small>${String(inbound)} in, ${
      String(outbound)
    } out, the oldest first</small>`,
    rows.length === 0 ? html`<p class="empty">No connection is open.</p>` : [
      table(
        "Open connections, the oldest first",
        [
          { name: "from" },
          { name: "to" },
          { name: "protocol" },
          { name: "stage", kind: "less" },
          { name: "age", kind: "number" },
          { name: "idle", kind: "number less" },
          { name: "bytes", kind: "number" },
        ],
        rows.map(connectionRow),
      ),
      moreText(more, "/connections"),
    ],
  );
}

function connectionRow(connection: ConnectionRow): Row {
  const { id, source, destination, endpoint, protocol, stage, ageMs, idleMs, bytes } = connection;
  return {
    key: id,
    cells: [
      source,
      html`${destination}${
        endpoint === "" || endpoint === destination
          ? ""
          : html`<span class="sub">${endpoint}</span>`
      }`,
      protocol,
      stage,
      spanText(ageMs),
      spanText(idleMs),
      bytesText(bytes),
    ],
  };
}

export function certificatesSection({ certificates: { rows, more }, atMs }: PageData): Html {
  return panel(
    "certificates",
    "Certificates",
    rows.length === 0 ? html`<p class="empty">This proxy has no certificate yet.</p>` : [
      table(
        "Certificates in use, the first to expire first",
        [{ name: "name" }, { name: "kind", kind: "less" }, { name: "time left" }],
        rows.map((row, at) => certificateRow(row, { at, atMs })),
      ),
      moreText(more, "/certs"),
    ],
  );
}

function certificateRow(
  row: CertificateShown,
  { at, atMs }: { readonly at: number; readonly atMs: number },
): Row {
  const { kind, name, source, names, notBeforeMs, notAfterMs } = row;
  const level = notAfterMs < atMs ? "bad" : row.isNearExpiry ? "warn" : "";
  const left = (notAfterMs - atMs) / Math.max(1, notAfterMs - notBeforeMs);
  return {
    key: `${kind} ${name} ${source} ${at}`,
    cells: [
      html`${name} <span class="sub">${
        names.length === 0 ? `from ${source}` : names.join(", ")
      }</span>`,
      kind,
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

function secretRow(status: SecretStatus, atMs: number): Row {
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
  return panel("intentions", "Intentions in force", [
    rows.length === 0 ? "" : table(
      "Intentions in force, the first match decides",
      [{ name: "source" }, { name: "action" }, { name: "precedence", kind: "number less" }],
      rows.map(({ source, action, rule, precedence }, at) => ({
        key: `${rule} ${at}`,
        cells: [
          html`${source === "*" ? "any service" : source}<span class="sub">${rule}</span>`,
          mark({ level: ACTIONS[action as keyof typeof ACTIONS] ?? "idle", word: action }),
          String(precedence),
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

export function pluginsSection({ plugins }: PageData): Html | "" {
  if (plugins.length === 0) return "";
  return panel(
    "plugins",
    "Plugins",
    table(
      "Plugins of every listener",
      [
        { name: "plugin" },
        { name: "state" },
        { name: "exchanges", kind: "number" },
        { name: "failures", kind: "number" },
      ],
      plugins.map(({ name, listener, phase, state, exchanges, failures, lastFailure }, at) => ({
        key: `${listener} ${name} ${at}`,
        cells: [
          html`${name}<span class="sub">${phase}, ${listener}</span>`,
          html`${mark(state)}${
            lastFailure === "" ? "" : html`<span class="sub bad">${lastFailure}</span>`
          }`,
          String(exchanges),
          String(failures),
        ],
      })),
    ),
  );
}

export function eventsSection({ events }: PageData): Html {
  return panel(
    "events",
    "Events",
    events.length === 0 ? html`<p class="empty">Nothing has changed so far.</p>` : table(
      "Events, newest first",
      [{ name: "time", kind: "time" }, { name: "what" }],
      events.map(({ at, kind, text, isTrouble }) => ({
        key: `${at} ${text}`,
        cells: [
          html`<time datetime="${at}">${at.slice(11, 19)}</time>`,
          html`${mark({ level: isTrouble ? "bad" : "idle", word: kind })} ${text}`,
        ],
      })),
    ),
  );
}

export function factsSection({ facts }: PageData): Html {
  return panel(
    "facts",
    "This proxy",
    html`
      <table class="facts">
        <caption class="unseen">This proxy</caption>
        <tbody>${facts.map(([name, value]) =>
          html`
            <tr data-key="${name}">
              <th scope="row">${name}</th>
              <td>${value}</td>
            </tr>
          `
        )}</tbody>
      </table>
    `,
  );
}
