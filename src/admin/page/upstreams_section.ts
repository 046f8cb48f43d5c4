/** The panel of upstreams: their routes, targets and endpoints. @module */

import { html } from "hono/html";
import type { PageData } from "./page_data.ts";
import {
  FLOW_COLUMNS,
  flowCells,
  type Html,
  mark,
  type Markup,
  moreText,
  panel,
  table,
} from "./panel.ts";
import { periodText } from "./texts.ts";
import type { UpstreamShown } from "./upstreams_shown.ts";

export function upstreamsSection({ upstreams: { rows, more }, traffic }: PageData): Html {
  return panel(
    "upstreams",
    html`Upstreams <small>${periodText(traffic)}</small>`,
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
    [{ name: "requests" }, { name: "go to" }, ...FLOW_COLUMNS],
    routes.map((route, at) => ({
      key: String(at),
      cells: [
        html`<code>${route.matches}</code>`,
        html`${
          route.splits.map(({ share, targets: [first = "", ...rest] }) =>
            html`<div class="split">${sharePart(share)}${first}${
              rest.length === 0 ? "" : html`<span class="sub">then ${rest.join(", then ")}</span>`
            }</div>`
          )
        }`,
        ...flowCells(route.flow),
      ],
    })),
  );
}

function sharePart(share: number): Markup {
  if (share === 1) return "";
  const percent = Math.round(share * 1_000) / 10;
  return html`
    <span class="share"><svg viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rest" width="100" height="20" rx="10" />
      <rect class="part" width="${String(percent)}" height="20" rx="10" />
    </svg>${String(percent)} %</span>
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
          { name: "state", kind: "state" },
          { name: "active", kind: "number less" },
          { name: "weight", kind: "number less" },
          ...FLOW_COLUMNS,
        ],
        endpoints.map(({ id, address, weight, active, state, why, flow }) => ({
          key: `${id} ${address}`,
          cells: [
            html`<span class="mono">${address}</span>${
              id === address ? "" : html`<span class="sub">${id}</span>`
            }${why === "" ? "" : html`<span class="sub ${state.level}">${why}</span>`}`,
            mark(state),
            String(active),
            String(weight),
            ...flowCells(flow),
          ],
        })),
      )}
    ${more === 0 ? "" : moreText(more, "/clusters")}
  `;
}
