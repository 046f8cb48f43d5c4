/** The map of the page at `/`: callers, this service and its upstreams, with their traffic. @module */

import { html } from "hono/html";
import type { PeerProxy } from "../view.ts";
import type { PageData } from "./page_data.ts";
import type { Html } from "./panel.ts";
import { errorLevel, latencyText, percentText, periodText, rateText } from "./texts.ts";
import { flowKey, type FlowShown } from "./traffic_history.ts";
import type { StateShown } from "./upstreams_shown.ts";

interface NodeShown {
  readonly name: string;
  readonly state: StateShown;
  readonly flow: FlowShown;
  /** Open connections. */
  readonly open: number;
}

export function mapSection(data: PageData): Html {
  const { service, callers, upstreams, traffic } = data;
  const calling = callers.rows.map((caller): NodeShown => ({
    ...caller,
    state: { level: "idle", word: "" },
  }));
  const lonely = [
    ...calling.length === 0 ? ["uncalled"] : [],
    ...upstreams.rows.length === 0 ? ["alone"] : [],
  ];
  return html`
    <section class="panel wide" aria-labelledby="map">
      <h2 id="map">Traffic <small>${periodText(traffic)}</small></h2>
      <div class="map">
        <h3>Callers</h3>
        ${nodes(calling, {
          side: "callers",
          more: callers.more,
          empty: "No service has called this one.",
        })}
        <h3 class="unseen">This service</h3>
        <div class="self ${lonely.join(" ")}">
          <b>${service || "no service yet"}</b>
          ${selfLine("in", traffic.flows.get(flowKey("inbound")), traffic.inbound)}
          ${selfLine("out", traffic.flows.get(flowKey("outbound")), traffic.outbound)}
        </div>
        <h3>Upstreams</h3>
        ${nodes(upstreams.rows, {
          side: "upstreams",
          more: upstreams.more,
          empty: "This service declares no upstream.",
        })}
      </div>
    </section>
  `;
}

function selfLine(
  side: "in" | "out",
  flow: FlowShown | undefined,
  rates: readonly number[],
): Html | "" {
  if (!flow) return "";
  return html`
    <p class="flow"><span class="side">${side}</span> ${rateAndErrors(flow)} ${spark(
      rates,
      side,
    )}</p>
  `;
}

function rateAndErrors(flow: Pick<FlowShown, "perSecond" | "errorShare">): Html {
  return html`<strong>${rateText(flow.perSecond)}</strong> per second${
    flow.perSecond === 0
      ? ""
      : html`, <span class="${errorLevel(flow)}">${percentText(flow.errorShare)} errors</span>`
  }`;
}

/** A line over time; numbers beside it say the same. */
function spark(rates: readonly number[], side: "in" | "out"): Html | "" {
  if (rates.length < 2) return "";
  const top = Math.max(...rates, 0.1);
  const step = 100 / (rates.length - 1);
  const points = rates.map((rate, at) =>
    `${(at * step).toFixed(1)},${(27 - 25 * rate / top).toFixed(1)}`
  );
  const area = `0,28 ${points.join(" ")} 100,28`;
  return html`
    <svg class="spark ${side}" viewBox="0 0 100 28" preserveAspectRatio="none" aria-hidden="true">
      <polygon points="${area}" />
      <polyline points="${points.join(" ")}" />
    </svg>
  `;
}

function nodes(
  all: readonly NodeShown[],
  { side, more, empty }: {
    readonly side: "callers" | "upstreams";
    readonly more: number;
    readonly empty: string;
  },
): Html {
  if (all.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`
    <div>
      <ul class="${side}">${all.map(node)}</ul>
      ${more === 0 ? "" : html`<p class="more">and ${String(more)} more</p>`}
    </div>
  `;
}

function node({ name, state, flow, open }: NodeShown): Html {
  const own = flow.perSecond > 0 && flow.errorShare === 0 ? "ok" : errorLevel(flow);
  const level = state.level === "idle" ? own : state.level;
  return html`
    <li data-key="${name}">
      <div class="node ${level}">
        <b>${name}</b> ${state.word === ""
          ? ""
          : html`<span class="mark ${state.level}">${state.word}</span>`}
        <span class="sub">${rateAndErrors(flow)}</span>
        <span class="sub">${flow.perSecond === 0
          ? ""
          : `p50 ${latencyText(flow.p50Ms)}, p99 ${latencyText(flow.p99Ms)}, `}${open === 1
          ? "1 connection"
          : `${open} connections`} open</span>
      </div>
    </li>
  `;
}

const PEER_LEVELS = {
  ready: "ok",
  starting: "warn",
  draining: "warn",
  "not ready": "bad",
  "no answer": "bad",
} as const;

/** `""`: this proxy is alone on its machine. */
export function peersSection({ peers }: PageData): Html | "" {
  if (peers.length === 0) return "";
  return html`
    <section class="panel wide" aria-labelledby="peers">
      <h2 id="peers">Other proxies of this machine <small>rates of the last 1 to 2 minutes</small></h2>
      <ul class="peers">${peers.map(peerNode)}</ul>
    </section>
  `;
}

function peerNode(peer: PeerProxy): Html {
  const { address, service, proxyId, identity, version, state, troubles } = peer;
  const level = state === "ready" && troubles.length > 0 ? "warn" : PEER_LEVELS[state];
  const name = service || proxyId || address;
  return html`
    <li class="node ${level}" data-key="${address}">
      <b><a href="http://${address}/">${name}</a></b> <span class="mark ${level}">${state}</span>
      <span class="sub">${state === "no answer" ? "" : html`${rateAndErrors(peer)}`}</span>
      <span class="sub">${[proxyId, address, version].filter((part) => part).join(", ")}</span>
      ${identity === "" ? "" : html`<span class="sub">${identity}</span>`}
      ${troubles.map((trouble) => html`<span class="sub ${level}">${trouble}</span>`)}
    </li>
  `;
}
