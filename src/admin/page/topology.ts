/** The map of the page at `/`: callers, this service and its upstreams. @module */

import { html } from "hono/html";
import type { PageData } from "./page_data.ts";
import type { Html } from "./sections.ts";
import type { StateShown } from "./upstreams_shown.ts";

interface NodeShown {
  readonly name: string;
  readonly state: StateShown;
  readonly lines: readonly string[];
}

export function mapSection(data: PageData): Html {
  const { service } = data;
  const callers = data.callers.rows.map(({ name, open }): NodeShown => ({
    name,
    state: { level: "idle", word: "" },
    lines: [openText(open)],
  }));
  const upstreams = data.upstreams.rows.map(({ name, state, open }): NodeShown => ({
    name,
    state,
    lines: [openText(open)],
  }));
  const lonely = [
    ...callers.length === 0 ? ["uncalled"] : [],
    ...upstreams.length === 0 ? ["alone"] : [],
  ];
  return html`
    <section class="panel wide" aria-labelledby="map">
      <h2 id="map">Traffic</h2>
      <div class="map">
        <h3>Callers</h3>
        ${nodes(callers, { side: "callers", empty: "Nobody calls this service now." })}
        <h3 class="unseen">This service</h3>
        <div class="self ${lonely.join(" ")}"><b>${service || "no service yet"}</b></div>
        <h3>Upstreams</h3>
        ${nodes(upstreams, { side: "upstreams", empty: "This service declares no upstream." })}
      </div>
    </section>
  `;
}

function openText(open: number): string {
  return open === 1 ? "1 open connection" : `${open} open connections`;
}

function nodes(
  all: readonly NodeShown[],
  { side, empty }: { readonly side: "callers" | "upstreams"; readonly empty: string },
): Html {
  if (all.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`
    <ul class="${side}">${all.map(({ name, state, lines }) =>
      html`
        <li data-key="${name}">
          <div class="node ${state.level}">
            <b>${name}</b> ${state.word === ""
              ? ""
              : html`<span class="mark ${state.level}">${state.word}</span>`}
            ${lines.map((line) => html`<span class="sub">${line}</span>`)}
          </div>
        </li>
      `
    )}</ul>
  `;
}
