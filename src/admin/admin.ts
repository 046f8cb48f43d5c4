/**
 * The admin server's requests. Everything it shows is read when asked; what it may do is drain, end and
 * set the log level.
 *
 * @module
 */

import { type Context, Hono } from "hono";
import { LOG_LEVELS, messageOf } from "../base/mod.ts";
import { certsShown } from "./secrets/certs.ts";
import { configDump } from "./config_dump.ts";
import { eventLine, eventsShown } from "./secrets/events.ts";
import { questionOf } from "./explain/merge_explained.ts";
import { explainFor } from "./explain/explain_for.ts";
import { explainText } from "./explain/explain_text.ts";
import { EXIT_CODE_HEADER, exitCodeOf } from "./explain/verdict.ts";
import { type GuardRules, refuseRequest } from "./server/guard.ts";
import { homePage, PATHS } from "./home.ts";
import { measuredData, METRICS_TYPE, shownData } from "./measured.ts";
import { hide, shownJson, shownText } from "./redact.ts";
import { clusterStatusesJson, clusterStatusLines } from "./envoy/cluster_statuses.ts";
import { listenerStatusesJson } from "./envoy/listeners.ts";
import { serverInfo } from "./envoy/server_info.ts";
import { CounterReset } from "./reset_counters.ts";
import { mergeEndpoints } from "./merge.ts";
import { stateOf, withCatalog, withUpstreams } from "./state.ts";
import {
  lineFilter,
  ownStatsJson,
  prometheusText,
  STAT_TYPES,
  statsJson,
  statsText,
  typeOfStats,
} from "./stats.ts";
import { healthOf, lackingOf, lines, listenersText } from "./texts.ts";
import { troubleTexts, upstreamTroubles } from "./upstream_troubles.ts";
import type { AdminView } from "./view.ts";

type Handler = (context: Context) => Response | Promise<Response>;
type Methods = Readonly<Partial<Record<"GET" | "POST", Handler>>>;

const BODY_LIMIT_BYTES = 1_024;
const CONNECTIONS_SHOWN = 1_000;
const CONNECTIONS_SHOWN_AT_MOST = 100_000;
const EVENTS_SHOWN = 100;
const EVENTS_SHOWN_AT_MOST = 1_000;

/** What a request itself does not say. */
export interface AdminCaller {
  /** As in {@link GuardedRequest}. */
  readonly peer: string;
}

type Env = { readonly Bindings: AdminCaller };

/** Asked whether this process lives or carries traffic; see {@link Places}. */
export function isProbe(path: string): boolean {
  // An answer that waits for Consul, which a query can ask for, must not hold the places of probes.
  return /^\/(?:ready|live)\??$/.test(path);
}

export function createAdmin(view: AdminView, rules: GuardRules): Hono<Env> {
  const app = new Hono<Env>();
  app.use(async (context, next) => {
    const refused = refusal(context, rules);
    if (refused) return refused;
    await next();
    const { headers } = context.res;
    headers.set("cache-control", "no-store");
    headers.set("x-content-type-options", "nosniff");
    headers.set("x-frame-options", "DENY");
    headers.set("referrer-policy", "no-referrer");
    headers.set("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'");
    return undefined;
  });
  for (const [path, methods] of Object.entries(routesOf(view))) {
    app.all(path, (context) => {
      const method = context.req.method === "HEAD" ? "GET" : context.req.method;
      const handler = method === "GET" || method === "POST" ? methods[method] : undefined;
      if (handler) return handler(context);
      const allow = [methods.GET && "GET, HEAD", methods.POST && "POST"].filter(Boolean).join(", ");
      return context.text(`Cannot ${context.req.method} ${path}: want ${allow}\n`, 405, {
        allow,
      });
    });
  }
  app.notFound((context) => {
    const known = PATHS.map(([path]) => path).join(" ");
    return context.text(`There is nothing here. There is: / ${known}\n`, 404);
  });
  app.onError((error, context) => {
    const fact = shownText(messageOf(error), view.secrets());
    return context.text(`Cannot answer: ${fact}\n`, 500);
  });
  return app;
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

function routesOf(view: AdminView): Readonly<Record<string, Methods>> {
  const shown = () => shownData(view);
  const counters = new CounterReset();
  const merged = async () => {
    const all = await measuredData(view);
    return { ...all, samples: counters.since(all.samples) };
  };
  const json = (context: Context, value: unknown) =>
    context.body(shownJson(value, view.secrets()), 200, { "content-type": "application/json" });
  const text = (context: Context, shown: string) => context.text(shownText(shown, view.secrets()));
  const stats = async (context: Context, format: string) => {
    const filter = await lineFilter(context.req.query("filter") ?? "", view.clock);
    if (!filter) return badQuery(context, "filter", "a regex (RE2's language)");
    const kind = typeOfStats(context.req.query("type") ?? "All");
    if (kind === undefined) return badQuery(context, "type", STAT_TYPES.join(", "));
    const usedOnly = context.req.query("usedonly") !== undefined;
    const wanted = { filter, kind, usedOnly };
    switch (format) {
      case "text":
        return text(context, statsText(view, await merged(), wanted));
      case "json":
        return json(context, statsJson(view, await merged(), wanted));
      case "postern":
        return json(context, ownStatsJson(view, await merged(), wanted));
      case "prometheus": {
        const shown = hide(prometheusText(view, await merged(), wanted), view.secrets());
        return context.body(shown, 200, { "content-type": METRICS_TYPE });
      }
      default:
        return badQuery(context, "format", "text, json, prometheus or postern");
    }
  };
  return {
    "/": {
      async GET(context) {
        const page = homePage(view, { merged: await merged(), state: await stateOf(view) });
        return context.html(shownText(page.toString(), view.secrets()));
      },
    },
    "/ready": {
      async GET(context) {
        const wants = (name: string) => context.req.query(name) !== undefined;
        const [state, endpoints] = await Promise.all([stateOf(view), view.endpoints()]);
        const found = wants("catalog") ? await withCatalog(state, view) : state;
        if ("reason" in found) {
          return context.text(
            shownText(`Cannot look into the catalog: ${found.reason}\n`, view.secrets()),
            400,
          );
        }
        const troubles = upstreamTroubles(view, mergeEndpoints(endpoints));
        const { name, reasons, warnings } = wants("upstreams")
          ? withUpstreams(found, troubles)
          : found;
        const refused = view.refused().map(({ what, reason }) => `${what}: ${reason}`);
        const noted = [...new Set([...warnings, ...refused, ...troubleTexts(troubles)])]
          .filter((line) => !reasons.includes(line)).map((line) => `warning: ${line}`);
        const shown = [...reasons, ...noted].map((line) => shownText(line, view.secrets()));
        return context.text(lines([name, ...shown]), reasons.length === 0 ? 200 : 503);
      },
    },
    "/live": {
      async GET(context) {
        const stuck = await view.stuck();
        return stuck.length === 0
          ? context.text("LIVE\n")
          : context.text(lines(["STUCK", ...stuck]), 503);
      },
    },
    "/stats": { GET: (context) => stats(context, context.req.query("format") ?? "text") },
    "/stats/prometheus": { GET: (context) => stats(context, "prometheus") },
    "/certs": { GET: (context) => json(context, certsShown(view)) },
    "/clusters": {
      async GET(context) {
        const { endpoints } = await merged();
        const snapshot = view.snapshot();
        switch (context.req.query("format") ?? "text") {
          case "text":
            return text(context, lines(clusterStatusLines(snapshot, endpoints)));
          case "json":
            return json(context, clusterStatusesJson(snapshot, endpoints));
          case "postern": {
            const shown = endpoints.map((view) => ({ ...view, health: healthOf(view) }));
            return json(context, { endpoints: shown, lacking: lackingOf(snapshot) });
          }
          default:
            return badQuery(context, "format", "text, json or postern");
        }
      },
    },
    "/listeners": {
      async GET(context) {
        const { listeners } = await shown();
        const snapshot = view.snapshot();
        switch (context.req.query("format") ?? "text") {
          case "text":
            return text(context, listenersText(listeners, snapshot));
          case "json":
            return json(context, listenerStatusesJson(listeners, snapshot));
          case "postern":
            return json(context, { listeners });
          default:
            return badQuery(context, "format", "text, json or postern");
        }
      },
    },
    "/connections": {
      async GET(context) {
        const bounds = { usual: CONNECTIONS_SHOWN, most: CONNECTIONS_SHOWN_AT_MOST };
        const limit = limitOf(context, bounds);
        if (limit === undefined) return badLimit(context, bounds.most);
        const listener = context.req.query("listener");
        const { connections } = await merged();
        const wanted = listener === undefined
          ? connections
          : connections.filter((connection) => connection.listener === listener);
        return json(context, { total: wanted.length, connections: wanted.slice(0, limit) });
      },
    },
    "/explain": {
      async GET(context) {
        const { req } = context;
        const question = questionOf((name) => req.query(name), req.queries("header") ?? []);
        const explained = await explainFor(view, question);
        if (!explained) return context.text("Cannot explain: there is no state yet\n", 503);
        if ("reason" in explained) {
          const status = explained.kind === "invalid" ? 400 : 404;
          const reason = shownText(explained.reason, view.secrets());
          return context.text(`Cannot explain: ${reason}\n`, status);
        }
        context.header(EXIT_CODE_HEADER, String(exitCodeOf(explained)));
        return req.query("format") === "text"
          ? text(context, explainText(explained))
          : json(context, explained);
      },
    },
    "/events": {
      GET(context) {
        const bounds = { usual: EVENTS_SHOWN, most: EVENTS_SHOWN_AT_MOST };
        const limit = limitOf(context, bounds);
        if (limit === undefined) return badLimit(context, bounds.most);
        const { events } = view.secretsReport();
        const shown = eventsShown(events, limit);
        const wantsText = context.req.query("format") === "text" ||
          context.req.header("accept")?.toLowerCase().startsWith("text/plain");
        if (!wantsText) return json(context, { total: events.length, events: shown });
        return context.text(
          lines(shown.map((event) => shownText(eventLine(event), view.secrets()))),
        );
      },
    },
    "/plugins": {
      async GET(context) {
        const { plugins } = await merged();
        const shown = plugins.map(({ lastFailure, ...plugin }) => ({
          ...plugin,
          lastFailure: lastFailure && {
            reason: lastFailure.reason,
            at: new Date(lastFailure.atMs).toISOString(),
          },
        }));
        return json(context, { plugins: shown });
      },
    },
    "/plugins/reload": {
      async POST(context) {
        const outcome = await view.reload();
        if (outcome.kind === "refused") {
          const reason = shownText(outcome.reason, view.secrets());
          return context.text(`Not reloaded, the old state serves on: ${reason}\n`, 409);
        }
        const { plugins } = await merged();
        const generation = Math.max(0, ...plugins.map(({ generation }) => generation));
        return json(context, { snapshot: outcome.snapshotVersion, generation });
      },
    },
    "/config_dump": {
      GET(context) {
        const withEndpoints = context.req.query("include_eds") !== undefined;
        return json(context, configDump(view, { withEndpoints }));
      },
    },
    "/server_info": {
      async GET(context) {
        return json(context, await serverInfo(view));
      },
    },
    "/logging": {
      GET: (context) => json(context, { level: view.logLevel() }),
      POST(context) {
        const wanted = context.req.query("level")?.toLowerCase();
        const level = LOG_LEVELS.find((one) => one === wanted);
        if (level === undefined) return badQuery(context, "level", LOG_LEVELS.join(", "));
        view.setLogLevel(level);
        return json(context, { level: view.logLevel() });
      },
    },
    "/reset_counters": {
      async POST(context) {
        counters.reset((await measuredData(view)).samples);
        return context.text("OK\n");
      },
    },
    "/drain_listeners": {
      POST(context) {
        view.drainListeners(context.req.query("inboundonly") === undefined ? "all" : "inbound");
        return context.text("OK\n");
      },
    },
    "/quitquitquit": {
      POST(context) {
        view.quit();
        return context.text("OK\n");
      },
    },
  };
}

/** `?limit=`; undefined: no number within the bounds. */
function limitOf(
  context: Context,
  { usual, most }: { readonly usual: number; readonly most: number },
): number | undefined {
  const limit = Number(context.req.query("limit") ?? usual);
  return Number.isInteger(limit) && limit >= 0 && limit <= most ? limit : undefined;
}

function badLimit(context: Context, most: number): Response {
  return badQuery(context, "limit", `a number from 0 to ${most}`);
}

function badQuery(context: Context, name: string, want: string): Response {
  return context.text(`Cannot read ?${name}: want ${want}\n`, 400);
}
