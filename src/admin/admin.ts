/** The routes of the admin server. Each page reads the state when it is requested. @module */

import { type Context, Hono } from "hono";
import { formatAddress, LOG_LEVELS, messageOf } from "../base/mod.ts";
import type { PluginView } from "../proxy/mod.ts";
import { upstreamLabel } from "../snapshot/mod.ts";
import { configDump } from "./config_dump.ts";
import { clusterStatusesJson, clusterStatusLines } from "./envoy/clusters.ts";
import { listenerStatusesJson, listenersText } from "./envoy/listeners.ts";
import { readyFacts, readyPage, serverInfo } from "./envoy/server_state.ts";
import { eventLine, eventsShown, followEvents, readEventFilter } from "./events_page.ts";
import { explainFor, questionOf } from "./explain/explain_for.ts";
import { explainText } from "./explain/explain_text.ts";
import { EXIT_CODE_HEADER, exitCodeOf } from "./explain/verdict.ts";
import { PAGE_FILES, PATHS } from "./home.ts";
import { expose } from "./exposition.ts";
import { CounterReset, measuredData, shownData } from "./measured.ts";
import type { MergedView } from "./merge.ts";
import type { TrafficHistory } from "./page/traffic_history.ts";
import { lines, shownJson, shownText } from "./redact.ts";
import { certsShown } from "./secrets/certs.ts";
import { type GuardRules, refuseRequest } from "./server/guard.ts";
import type { SmallPage } from "./server/http_server.ts";
import { readWanted, statsPages } from "./stats.ts";
import { lackingOf } from "./upstream_troubles.ts";
import { trafficShown } from "./traffic_shown.ts";
import { tapFilterOf, tapped } from "./tap.ts";
import type { AdminView } from "./view.ts";

const BODY_LIMIT_BYTES = 1_024;
const CONNECTIONS = { usual: 1_000, most: 100_000 } as const;
const EVENTS = { usual: 100, most: 1_000 } as const;

type Env = {
  readonly Bindings: {
    /** As in `GuardedRequest`. */
    readonly peer: string;
  };
};

type Get = (context: Context) => Response | Promise<Response>;

/** A probe of this process: it may use the connections that are reserved for probes. */
export function isProbe(path: string): boolean {
  // A query may make the answer wait for Consul.
  return /^\/(?:ready|live)\??$/.test(path);
}

export function createAdmin(view: AdminView, rules: GuardRules): Hono<Env> {
  const app = new Hono<Env>();
  const hidden = () => view.secrets();
  const text: Shown<string> = (context, shown, status = 200) =>
    context.text(shownText(shown, hidden()), status);
  const json: Shown<unknown> = (context, value) =>
    context.body(shownJson(value, hidden()), 200, { "content-type": "application/json" });

  app.use(async (context, next) => {
    const refused = refusal(context, rules);
    if (refused) return refused;
    await next();
    for (const [name, value] of Object.entries(HEADERS)) context.res.headers.set(name, value);
    return undefined;
  });
  app.notFound((context) => {
    const { path, method } = context.req;
    const known = app.routes.filter((route) => route.path === path && route.method !== "ALL");
    if (known.length === 0) {
      const all = PATHS.map(([path]) => path).join(" ");
      return context.text(`There is nothing here. There is: / ${all}\n`, 404);
    }
    const allow = known.map((route) => route.method === "GET" ? "GET, HEAD" : route.method)
      .join(", ");
    return context.text(`Cannot ${method} ${path}: want ${allow}\n`, 405, { allow });
  });
  app.onError((error, context) => text(context, `Cannot answer: ${messageOf(error)}\n`, 500));

  const counters = new CounterReset();
  const merged = async (): Promise<MergedView> => {
    const all = await measuredData(view);
    return { ...all, samples: counters.since(all.samples) };
  };

  let history: TrafficHistory | undefined;
  app.get("/", async (context) => {
    const { homePage, TrafficHistory } = await loadPage();
    history ??= new TrafficHistory();
    return context.html(shownText(await homePage(view, await merged(), history), hidden()));
  });
  for (const path of PAGE_FILES) {
    app.get(path, async (context) => {
      const file = (await loadPage()).pageFiles[path];
      return context.body(file.text, 200, { "content-type": file.type });
    });
  }
  app.get("/ready", async (context) => {
    const wants = (name: string) => context.req.query(name) !== undefined;
    if (context.req.query("format") === "postern") return json(context, await readyFacts(view));
    const options = { catalog: wants("catalog"), upstreams: wants("upstreams") };
    const { status, body } = await readyPage(view, options);
    return text(context, body, status);
  });
  app.get("/live", async (context) => {
    const stuck = await view.stuck();
    return stuck.length === 0
      ? context.text("LIVE\n")
      : context.text(lines(["STUCK", ...stuck]), 503);
  });

  const stats = async (context: Context, only?: "prometheus") => {
    const wanted = await readWanted((name) => context.req.query(name), view.clock);
    if ("want" in wanted) return badQuery(context, wanted.name, wanted.want);
    const pages = statsPages(view, await merged(), wanted);
    const prometheus: Get = async () => {
      const accept = context.req.header("accept");
      const { type, body } = await expose(pages.prometheus(), { accept, hidden: hidden() });
      return context.body(body, 200, { "content-type": type, "vary": "accept" });
    };
    return only ? prometheus(context) : inFormat(context, {
      text: () => text(context, pages.text()),
      json: () => json(context, pages.json()),
      prometheus,
      postern: () => json(context, pages.postern()),
    });
  };
  app.get("/stats", (context) => stats(context));
  app.get("/stats/prometheus", (context) => stats(context, "prometheus"));
  app.get("/certs", (context) => json(context, certsShown(view)));
  app.get("/clusters", async (context) => {
    const { endpoints } = await merged();
    const snapshot = view.snapshot();
    return inFormat(context, {
      text: () => text(context, lines(clusterStatusLines(snapshot, endpoints))),
      json: () => json(context, clusterStatusesJson(snapshot, endpoints)),
      postern: () => {
        const shown = endpoints.map((endpoint) => ({
          ...endpoint,
          health: endpoint.ejectedForMs > 0 ? "/failed_outlier_check" : "healthy",
        }));
        const failing = Object.values(snapshot?.targets ?? {}).flatMap(({ key, unhealthy }) =>
          unhealthy.map(({ id, host, port, checks = [] }) => {
            return { target: key, id, address: formatAddress({ kind: "tcp", host, port }), checks };
          })
        );
        return json(context, { endpoints: shown, failing, lacking: lackingOf(snapshot) });
      },
    });
  });
  app.get("/listeners", async (context) => {
    const { listeners } = await shownData(view);
    const snapshot = view.snapshot();
    return inFormat(context, {
      text: () => text(context, listenersText(listeners, snapshot)),
      json: () => json(context, listenerStatusesJson(listeners, snapshot)),
      postern: () => json(context, { listeners }),
    });
  });
  app.get("/connections", async (context) => {
    const limit = limitOf(context, CONNECTIONS);
    if (limit === undefined) return badLimit(context, CONNECTIONS);
    const listener = context.req.query("listener");
    const { connections } = await merged();
    const wanted = connections.filter((one) => listener === undefined || one.listener === listener);
    return json(context, { total: wanted.length, connections: wanted.slice(0, limit) });
  });
  app.get("/traffic", async (context) => {
    const { traffic, refusing } = await merged();
    const counts = context.req.query("counts") !== undefined;
    return json(context, trafficShown({ traffic, refusing }, { counts }));
  });
  app.get("/tap", (context) => {
    const { req } = context;
    const filter = tapFilterOf((name) => req.query(name), req.queries("header") ?? []);
    if ("want" in filter) return badQuery(context, filter.name, filter.want);
    return tapped(view, filter, hidden);
  });
  app.get("/explain", async (context) => {
    const { req } = context;
    const question = questionOf((name) => req.query(name), req.queries("header") ?? []);
    const explained = await explainFor(view, question);
    if (!explained) return context.text("Cannot explain: there is no state yet\n", 503);
    if ("reason" in explained) {
      const status = explained.kind === "invalid" ? 400 : 404;
      return text(context, `Cannot explain: ${explained.reason}\n`, status);
    }
    context.header(EXIT_CODE_HEADER, String(exitCodeOf(explained)));
    return req.query("format") === "text"
      ? text(context, explainText(explained, req.header("host") ?? ""))
      : json(context, explained);
  });
  app.get("/events", (context) => {
    const { req } = context;
    const limit = limitOf(context, EVENTS);
    if (limit === undefined) return badLimit(context, EVENTS);
    const lastId = req.header("last-event-id");
    const query = (name: string) => name === "since" && lastId ? lastId : req.query(name);
    const filter = readEventFilter(query, {
      nowMs: view.clock.now(),
      lastSeq: view.events().events.at(-1)?.seq ?? 0,
    });
    if ("want" in filter) return badQuery(context, filter.name, filter.want);
    if (req.query("follow") !== undefined) {
      return followEvents(view, filter, { fromStart: query("since") !== undefined });
    }
    const shown = eventsShown(view.events(), filter, limit);
    const wantsText = req.query("format") === "text" ||
      req.header("accept")?.toLowerCase().startsWith("text/plain");
    const day = view.events().day.shown(view.clock.now());
    return wantsText
      ? text(context, lines(shown.events.map(eventLine)))
      : json(context, { ...shown, day });
  });
  app.get("/plugins", async (context) => {
    const { plugins } = await merged();
    const shown = plugins.map((plugin) => pluginRow(plugin, view));
    const refused = view.refused().filter(({ what }) => /^plugins(?: of |$)/.test(what))
      .map(({ what, reason }) => ({ what, reason }));
    return json(context, { plugins: shown, ...refused.length > 0 && { refused } });
  });
  app.get("/config_dump", (context) => {
    const withEndpoints = context.req.query("include_eds") !== undefined;
    return json(context, configDump(view, { withEndpoints }));
  });
  app.get("/server_info", async (context) => json(context, await serverInfo(view)));
  app.get("/logging", (context) => json(context, { level: view.logLevel() }));

  app.post("/plugins/reload", async (context) => {
    const outcome = await view.reload();
    if (outcome.kind === "refused") {
      return text(
        context,
        `Refused, and the last good state of it serves on: ${outcome.reason}\n`,
        409,
      );
    }
    const { plugins } = await merged();
    const generation = Math.max(0, ...plugins.map(({ generation }) => generation));
    return json(context, { snapshot: outcome.snapshotVersion, generation });
  });
  app.post("/logging", (context) => {
    const wanted = context.req.query("level")?.toLowerCase();
    const level = LOG_LEVELS.find((one) => one === wanted);
    if (level === undefined) return badQuery(context, "level", LOG_LEVELS.join(", "));
    view.setLogLevel(level);
    return json(context, { level: view.logLevel() });
  });
  app.post("/reset_counters", async (context) => {
    counters.reset((await measuredData(view)).samples);
    return context.text("OK\n");
  });
  app.post("/drain_listeners", (context) => {
    view.drainListeners(context.req.query("inboundonly") === undefined ? "all" : "inbound");
    return context.text("OK\n");
  });
  app.post("/quitquitquit", (context) => {
    view.quit();
    return context.text("OK\n");
  });
  return app;
}

/** Answers `/stats` and `/stats/prometheus` as the admin server does, and nothing else. */
export function answerStats(view: AdminView): SmallPage {
  const app = createAdmin(view, { boundHost: "127.0.0.1" });
  return async (target, accept) => {
    if (!/^\/stats(?:\/prometheus)?(?:\?|$)/.test(target)) return undefined;
    const headers = { host: "127.0.0.1", ...accept !== undefined && { accept } };
    const reply = await app.request(target, { headers }, { peer: "127.0.0.1" });
    const type = reply.headers.get("content-type");
    const body = new Uint8Array(await reply.arrayBuffer());
    return { status: reply.status, body, ...(type !== null && { type }) };
  };
}

type Shown<T> = (
  context: Context,
  value: T,
  status?: 200 | 400 | 404 | 409 | 500 | 503,
) => Response;

/** The page takes no memory until it is opened. */
const loadPage = () => import("./page/page.ts");

const HEADERS = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; " +
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
    "frame-ancestors 'none'",
} as const;

/** With the label of the upstream that it stands at; `""`: it is for callers of this service. */
function pluginRow({ lastFailure, ...plugin }: PluginView, view: Pick<AdminView, "snapshot">) {
  const upstream = view.snapshot()?.upstreams[plugin.listener];
  const at = lastFailure && new Date(lastFailure.atMs).toISOString();
  return {
    ...plugin,
    upstream: upstream ? upstreamLabel(upstream) : "",
    lastFailure: lastFailure && { reason: lastFailure.reason, at },
  };
}

function refusal(context: Context<Env>, rules: GuardRules): Response | undefined {
  const { req } = context;
  const reason = refuseRequest({
    method: req.method,
    host: req.header("host"),
    origin: req.header("origin"),
    fetchSite: req.header("sec-fetch-site"),
    authorization: req.header("authorization"),
    peer: context.env?.peer ?? "",
  }, rules);
  if (reason !== undefined) return context.text(`Cannot answer this request: ${reason}\n`, 403);
  const length = Number(req.header("content-length") ?? "0");
  if (length > BODY_LIMIT_BYTES || req.header("transfer-encoding") !== undefined) {
    return context.text("Cannot take this request: it has a body, and none is wanted\n", 413, {
      connection: "close",
    });
  }
  return undefined;
}

/** `?format=`, default `text`. */
function inFormat(
  context: Context,
  formats: Readonly<Record<string, Get>>,
): Response | Promise<Response> {
  const wanted = context.req.query("format") ?? "text";
  const format = Object.hasOwn(formats, wanted) ? formats[wanted] : undefined;
  return format ? format(context) : badQuery(context, "format", Object.keys(formats).join(", "));
}

interface Bounds {
  readonly usual: number;
  readonly most: number;
}

/** `?limit=`; undefined: no number within the bounds. */
function limitOf(context: Context, { usual, most }: Bounds): number | undefined {
  const limit = Number(context.req.query("limit") ?? usual);
  return Number.isInteger(limit) && limit >= 0 && limit <= most ? limit : undefined;
}

function badLimit(context: Context, { most }: Bounds): Response {
  return badQuery(context, "limit", `a number from 0 to ${most}`);
}

function badQuery(context: Context, name: string, want: string): Response {
  return context.text(`Cannot read ?${name}: want ${want}\n`, 400);
}
