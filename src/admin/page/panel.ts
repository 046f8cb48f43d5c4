/** The parts that panels of the page at `/` are made of. @module */

import { html } from "hono/html";
import { errorLevel, latencyText, percentText, rateText } from "./texts.ts";
import type { FlowShown } from "./traffic_history.ts";
import type { StateShown } from "./upstreams_shown.ts";

export type Html = ReturnType<typeof html>;
export type Markup = Html | string;

export interface PanelColumn {
  readonly name: string;
  /** `number` is aligned to the right, `less` is left out on narrow screens. */
  readonly kind?: "number" | "less" | "number less" | "time" | "time less" | "state";
}

export interface PanelRow {
  /** Identifies the row among those of its table from one reading to the next. */
  readonly key: string;
  /** The first is the row's heading. */
  readonly cells: readonly Markup[];
}

/** `attributes`: further ones of the section. */
export function panel(
  id: string,
  title: Markup,
  content: Markup | readonly Markup[],
  attributes: Markup = "",
): Html {
  return html`
    <section class="panel" aria-labelledby="${id}" ${attributes}>
      <h2 id="${id}">${title}</h2>
      ${content}
    </section>
  `;
}

export function table(
  caption: string,
  columns: readonly PanelColumn[],
  rows: readonly PanelRow[],
): Html {
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

export function mark({ level, word }: StateShown): Html {
  return html`<span class="mark ${level}">${word}</span>`;
}

export function moreText(more: number, path: string): Markup {
  return more === 0
    ? ""
    : html`<p class="more">and ${String(more)} more, in <a href="${path}">${path}</a></p>`;
}

export function gauge(share: number, level = ""): Html {
  const part = Math.round(Math.min(1, Math.max(0, share)) * 100);
  return html`
    <svg class="bar ${level}" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rest" width="100" height="4" rx="2" />
      <rect class="part" width="${String(part)}" height="4" rx="2" />
    </svg>
  `;
}

/** Columns for {@link flowCells}. */
export const FLOW_COLUMNS: readonly PanelColumn[] = [
  { name: "rate", kind: "number" },
  { name: "errors", kind: "number" },
  { name: "p50", kind: "number less" },
  { name: "p99", kind: "number less" },
];

export function flowCells(flow: FlowShown): readonly Markup[] {
  const isIdle = flow.perSecond === 0;
  const level = errorLevel(flow);
  return [
    `${rateText(flow.perSecond)}/s`,
    isIdle ? "" : html`<span class="${level}">${percentText(flow.errorShare)}</span>`,
    isIdle ? "" : latencyText(flow.p50Ms),
    isIdle ? "" : latencyText(flow.p99Ms),
  ];
}
