/**
 * The page at `/`: the whole state as one document, which has it all without scripts; with them it stays
 * current. Loaded when the page is opened for the first time.
 *
 * @module
 */

import { html } from "hono/html";
import pageCss from "./page.css" with { type: "text" };
import pageJs from "./page.js" with { type: "text" };
import { type PAGE_FILES, type PageFile, PATHS } from "../home.ts";
import type { MergedView } from "../merge.ts";
import type { AdminView } from "../view.ts";
import type { PageData } from "./page_data.ts";
import { pageData } from "./page_data.ts";
import type { Html } from "./panel.ts";
import {
  connectionsSection,
  eventsSection,
  factsSection,
  pluginsSection,
  refusalsSection,
  slowSection,
} from "./sections.ts";
import { certificatesSection, intentionsSection, secretsSection } from "./trust_sections.ts";
import { upstreamsSection } from "./upstreams_section.ts";
import { mapSection, peersSection } from "./topology.ts";
import { countText, errorLevel, latencyText, percentText, periodText, rateText } from "./texts.ts";
import { flowKey, type FlowShown, NO_FLOW, TrafficHistory } from "./traffic_history.ts";
import type { Level } from "./upstreams_shown.ts";

export { TrafficHistory };

const SHAPES: Readonly<Record<Level, string>> = {
  ok: "M12 1a11 11 0 1 0 0 22 11 11 0 0 0 0-22Zm-1.6 16.2-4.9-4.9 2-2 2.9 2.9 6.1-6.1 2 2Z",
  warn: "M12 1.5 23.5 22H.5ZM10.7 9v6.5h2.6V9Zm0 8.2v2.6h2.6v-2.6Z",
  bad:
    "M7.4 1h9.2L23 7.4v9.2L16.6 23H7.4L1 16.6V7.4Zm.2 4.9L5.9 7.6l4.4 4.4-4.4 4.4 1.7 1.7 4.4-4.4 4.4 4.4 1.7-1.7-4.4-4.4 4.4-4.4-1.7-1.7-4.4 4.4Z",
  idle: "M12 1a11 11 0 1 0 0 22 11 11 0 0 0 0-22Z",
};

export const pageFiles: Readonly<Record<(typeof PAGE_FILES)[number], PageFile>> = {
  "/page.css": { type: "text/css; charset=utf-8", text: pageCss },
  "/page.js": { type: "text/javascript; charset=utf-8", text: pageJs },
  "/icon-ok.svg": icon("ok"),
  "/icon-warn.svg": icon("warn"),
  "/icon-bad.svg": icon("bad"),
};

export async function homePage(
  view: AdminView,
  merged: MergedView,
  history: TrafficHistory,
): Promise<string> {
  const data = await pageData(view, merged, history.read(merged.traffic, view.clock.monotonic()));
  return pageHtml(data, `${view.info.version}+${view.info.commit}`).toString();
}

function pageHtml(data: PageData, version: string): Html {
  const { service, state } = data;
  const title = `${service || "Postern"}: ${state.word}`;
  return html`
    <!DOCTYPE html>
    <html lang="en" data-version="${version}">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>${title} - Postern</title>
        <link rel="icon" type="image/svg+xml" href="/icon-${state.level}.svg">
        <link rel="stylesheet" href="/page.css">
        <script type="module" src="/page.js"></script>
      </head>
      <body>
            <a class="skip" href="#content">Skip to the content</a>
            ${banner(data)}
            <main id="content">
            ${troublesSection(data)} ${figures(data)} ${mapSection(data)} ${peersSection(data)}
            <div class="lefts">
              <div class="column">${upstreamsSection(data)} ${connectionsSection(data)}</div>
              <div class="column">${refusalsSection(data)} ${slowSection(data)}</div>
            </div>
            <div class="column">
              ${intentionsSection(data)} ${certificatesSection(data)} ${secretsSection(data)}
              ${pluginsSection(data)} ${eventsSection(data)} ${factsSection(data)}
            </div>
            ${pathsSection()}
          </main>
          </body>
    </html>
  `;
}

function banner({ service, proxyId, datacenter, state, reasons, atMs }: PageData): Html {
  const place = [proxyId, datacenter].filter((part) => part !== "").join(", ");
  return html`
    <header class="banner ${state.level}">
      <div>
        <h1>${service === "" ? "Postern" : service}</h1>
        <p class="place">${place === "" ? "no configuration yet" : place}</p>
      </div>
      <p class="state" role="status">${sign(state.level)}<span>${state.word}</span></p>
      ${reasons.length === 0
        ? ""
        : html`<ul class="why">${reasons.map((reason) => html`<li>${reason}</li>`)}</ul>`}
      <p class="link" id="link" role="status" data-own>As of ${timeText(atMs)}, reload for more</p>
    </header>
  `;
}

/** A shape for each state, for people who do not tell the colours apart. */
function sign(level: Level): Html {
  return html`
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path fill="currentColor" fill-rule="evenodd" d="${SHAPES[level]}" />
    </svg>
  `;
}

function icon(level: Level): PageFile {
  const colour = { ok: "#1f8a52", warn: "#e0a010", bad: "#d02525", idle: "#888" }[level];
  const path = `<path fill="${colour}" fill-rule="evenodd" d="${SHAPES[level]}"/>`;
  const text = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">${path}</svg>`;
  return { type: "image/svg+xml", text };
}

function timeText(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

function troublesSection({ troubles }: PageData): Html | "" {
  if (troubles.length === 0) return "";
  return html`
    <section class="panel troubles wide" aria-labelledby="troubles">
      <h2 id="troubles">Trouble</h2>
      <ul>${troubles.map((text) => html`<li>${text}</li>`)}</ul>
    </section>
  `;
}

function figures(data: PageData): Html {
  const { connections, upstreams, certificates: { rows: [first] }, traffic, atMs } = data;
  const { flows } = traffic;
  const period = periodText(traffic);
  const usable = upstreams.rows.filter(({ state }) => state.level !== "bad").length;
  const all = upstreams.rows.length + upstreams.more;
  const figure = (name: string, value: Html | string, level: Level = "idle") =>
    html`
      <div class="${level}">
        <dt>${name}</dt>
        <dd>${value}</dd>
      </div>
    `;
  const flowFigure = (side: "in" | "out", flow: FlowShown = NO_FLOW) =>
    html`
      <div class="flows">
        <dt>${side === "in" ? "Inbound" : "Outbound"}, ${period}</dt>
        <dd>${rateText(flow.perSecond)}<small> per second</small></dd>
        <dd class="${errorLevel(flow)}">${percentText(flow.errorShare)}<small> errors</small></dd>
        <dd>${flow.perSecond === 0 ? "-" : latencyText(flow.p99Ms)}<small> p99</small></dd>
      </div>
    `;
  return html`
    <dl class="figures wide">
      ${flowFigure("in", flows.get(flowKey("inbound")))}
      ${all === 0 ? "" : flowFigure("out", flows.get(flowKey("outbound")))}
      ${figure(
        "Connections",
        html`${countText(connections.inbound)}<small> in </small> ${
          countText(connections.outbound)
        }<small> out</small>`,
      )}
      ${connections.requests === undefined
        ? ""
        : figure("Open requests", countText(connections.requests))}
      ${all === 0 ? "" : figure(
        "Upstreams",
        html`${String(usable + upstreams.more)}<small> of ${String(all)} usable</small>`,
        usable < upstreams.rows.length ? "bad" : "idle",
      )}
      ${first
        ? figure(
          "Certificate",
          shortLeft(first.notAfterMs - atMs),
          first.notAfterMs < atMs ? "bad" : first.isNearExpiry ? "warn" : "idle",
        )
        : ""}
    </dl>
  `;
}

function shortLeft(leftMs: number): Html | string {
  if (leftMs < 0) return "expired";
  const hours = leftMs / 3_600_000;
  const [amount, unit] = hours >= 48
    ? [hours / 24, "days"]
    : hours >= 2
    ? [hours, "hours"]
    : [hours * 60, "minutes"];
  return html`${String(Math.floor(amount))}<small> ${unit} left</small>`;
}

function pathsSection(): Html {
  return html`
    <section class="panel wide" aria-labelledby="paths">
      <h2 id="paths">Pages</h2>
      <table class="paths">
        <caption class="unseen">Pages of the admin server</caption>
        <thead class="unseen">
          <tr>
            <th scope="col">path</th>
            <th scope="col">contents</th>
          </tr>
        </thead>
        <tbody>${PATHS.map(([path, about, method]) =>
          html`
            <tr>
              <th scope="row">${method
                ? html`<code>${method} ${path}</code>`
                : html`<a href="${path}"><code>${path}</code></a>`}</th>
              <td>${about}</td>
            </tr>
          `
        )}</tbody>
      </table>
    </section>
  `;
}
