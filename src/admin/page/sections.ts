/** The panels about traffic and the proxy itself. @module */

import { html } from "hono/html";
import type { ConnectionRow, PageData } from "./page_data.ts";
import { type Html, mark, moreText, panel, type PanelRow, table } from "./panel.ts";
import { countText, latencyText, spanText } from "./texts.ts";

export function connectionsSection({ connections }: PageData): Html {
  const { rows, more, inbound, outbound } = connections;
  const title = html`
    Open connections <small>${String(inbound)} in, ${String(outbound)} out, the oldest first</small>
  `;
  return panel(
    "connections",
    title,
    rows.length === 0 ? html`<p class="empty">No connection is open.</p>` : [
      table(
        "Open connections, the oldest first",
        [
          { name: "from" },
          { name: "to" },
          { name: "carries" },
          { name: "stage", kind: "less" },
          { name: "age", kind: "number" },
          { name: "idle", kind: "number less" },
        ],
        rows.map(connectionRow),
      ),
      moreText(more, "/connections"),
    ],
  );
}

function connectionRow(connection: ConnectionRow): PanelRow {
  const { id, source, destination, endpoint, carries, stage, ageMs, idleMs } = connection;
  return {
    key: id,
    cells: [
      source,
      html`${destination}${
        endpoint === "" || endpoint === destination
          ? ""
          : html`<span class="sub">${endpoint}</span>`
      }`,
      carries,
      stage,
      spanText(ageMs),
      spanText(idleMs),
    ],
  };
}

export function pluginsSection({ plugins }: PageData): Html | "" {
  if (plugins.length === 0) return "";
  return panel(
    "plugins",
    html`Plugins <small>since each was loaded</small>`,
    table(
      "Plugins of every listener",
      [
        { name: "plugin" },
        { name: "state" },
        { name: "exchanges", kind: "number" },
        { name: "failures", kind: "number" },
      ],
      plugins.map((
        { name, listener, phase, origin, state, exchanges, failures, lastFailure },
        at,
      ) => ({
        key: `${listener} ${name} ${at}`,
        cells: [
          html`${name}<span class="sub">${phase}, ${listener}</span><span class="sub">${origin}</span>`,
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

export function eventsSection({ events, lastEvent }: PageData): Html {
  return panel(
    "events",
    "Events",
    events.length === 0 ? html`<p class="empty">Nothing has changed so far.</p>` : table(
      "Events, newest first",
      [{ name: "time", kind: "time" }, { name: "what" }],
      events.map(({ seq, at, kind, text, isTrouble }) => ({
        key: String(seq),
        cells: [
          html`<time datetime="${at}">${at.slice(11, 19)}</time>`,
          html`${mark({ level: isTrouble ? "bad" : "idle", word: kind })} ${text}`,
        ],
      })),
    ),
    html`data-last-event="${String(lastEvent)}"`,
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

export function refusalsSection({ refusals: { rows, more }, atMs }: PageData): Html {
  return panel(
    "refusals",
    html`Denied, refused or failed <small>since the start, the newest first</small>`,
    rows.length === 0 ? html`<p class="empty">Nothing was denied, and nothing has failed.</p>` : [
      table(
        "Requests and connections that were denied or refused, or that no instance took, newest first",
        [{ name: "caller" }, { name: "reason" }, { name: "times", kind: "number" }],
        rows.map((
          { at, caller, direction, listener, code, rule, deniedBy, path, status, count },
        ) => ({
          key: [direction, caller, listener, code, rule, deniedBy, path, status].join(" "),
          cells: [
            html`${caller}<span class="sub">${
              path === "" ? "connection" : html`<code>${path}</code>`
            }${direction === "outbound" ? ` to ${listener}` : ""}</span>`,
            html`<code>${code}</code>${status === 0 ? "" : `, status ${status}`}${
              rule === "" ? "" : html`<span class="sub">${rule}</span>`
            }${deniedBy === "" ? "" : html`<span class="sub">refused by ${deniedBy}</span>`}`,
            html`${countText(count)}<span class="sub">${agoText(at, atMs)}</span>`,
          ],
        })),
      ),
      moreText(more, "/traffic"),
    ],
  );
}

export function slowSection({ slow: { rows, more }, atMs }: PageData): Html {
  return panel(
    "slow",
    html`Slow requests <small>last 5 minutes</small>`,
    rows.length === 0 ? html`<p class="empty">No request has ended in this time.</p>` : [
      table(
        "The slowest requests of the last 5 minutes",
        [{ name: "request" }, { name: "status", kind: "number" }, { name: "took", kind: "number" }],
        rows.map(({ at, caller, upstream, method, path, status, durationMs, endpoint }, index) => ({
          key: `${index}`,
          cells: [
            html`<code>${method} ${path}</code><span class="sub">${caller} to ${
              upstream || "this service"
            }${endpoint === "" ? "" : ` at ${endpoint}`}</span>`,
            status === 0 ? "none" : String(status),
            html`${latencyText(durationMs)}<span class="sub">${agoText(at, atMs)}</span>`,
          ],
        })),
      ),
      moreText(more, "/traffic"),
    ],
  );
}

function agoText(atMs: number, nowMs: number): string {
  const agoMs = Math.max(0, nowMs - atMs);
  return agoMs < 1_000 ? "now" : `${spanText(agoMs)} ago`;
}
