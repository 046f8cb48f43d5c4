/** Logs what a plugin changes. Its source is bundled with the plugin: import only types. @module */

import type {
  Headers,
  Host,
  HttpRequest,
  HttpResponse,
  Plugin,
  PluginDefinition,
  RequestArgs,
} from "../../../plugin/mod.ts";

const LOADED = "loaded";
const WATCHED = "watched request";

const VALUE_CHARS = 80;

/** A value that is no plugin is returned as it is, so that it is refused as without the wrapper. */
export function watched(definition: PluginDefinition): PluginDefinition {
  if (typeof definition?.create !== "function") return definition;
  return {
    ...definition,
    async create(host, config) {
      const plugin = await definition.create(host, config);
      host.log.info(LOADED, { worker: host.worker.index });
      return typeof plugin?.onRequest === "function" ? wrapped(plugin, host) : plugin;
    },
  };
}

function wrapped(plugin: Plugin, host: Host): Plugin {
  const onRequest: NonNullable<Plugin["onRequest"]> = (args, next) => {
    const { request } = args;
    let sent: HttpRequest | undefined;
    let got: HttpResponse | undefined;
    let sentTimes = 0;
    let given: unknown = undefined;
    args.exchange.onEnd(({ status, durationMs, code }) => {
      // The value of a promise is known a turn after its waiter has it.
      void Promise.resolve(given).catch(() => undefined).then((response) => {
        const last = response as HttpResponse | undefined;
        host.log.info(WATCHED, {
          what: `${request.method} ${request.path}`,
          source: sourceOf(args),
          status,
          code,
          sentTimes,
          ms: Math.round(durationMs),
          request: sent ? requestChanges(request, sent).join("\n") : "",
          response: got && last ? responseChanges(got, last).join("\n") : "",
        });
      });
    });
    const answer = plugin.onRequest?.(args, (change) => {
      sentTimes++;
      sent = change?.request ?? request;
      const map = change?.response;
      return next({
        ...change,
        response: (response) => {
          got = response;
          return map ? map(response) : response;
        },
      });
    });
    given = answer;
    // The result is returned unchanged, also undefined.
    return answer as NonNullable<typeof answer>;
  };
  const { onConnection, onRoutes, close } = plugin;
  return {
    onRequest,
    ...(onConnection && { onConnection: onConnection.bind(plugin) }),
    ...(onRoutes && { onRoutes: onRoutes.bind(plugin) }),
    ...(close && { close: close.bind(plugin) }),
  };
}

function sourceOf({ exchange: { connection: { source } } }: RequestArgs): string {
  return source ? source.service || source.uri : "";
}

function requestChanges(from: HttpRequest, to: HttpRequest): string[] {
  if (from === to) return [];
  const parts = (["method", "authority", "path"] as const)
    .filter((part) => from[part] !== to[part])
    .map((part) => `~ ${part}: ${shown(from[part])} -> ${shown(to[part])}`);
  return [...parts, ...headerChanges(from.headers, to.headers), ...bodyChange(from, to)];
}

function responseChanges(from: HttpResponse, to: HttpResponse): string[] {
  if (from === to) return [];
  const status = from.status === to.status ? [] : [`~ status: ${from.status} -> ${to.status}`];
  return [...status, ...headerChanges(from.headers, to.headers), ...bodyChange(from, to)];
}

function headerChanges(from: Headers, to: Headers): string[] {
  const names = new Set([...from, ...to].map(([name]) => name));
  return [...names].flatMap((name) => {
    const [before, after] = [from.all(name).join(", "), to.all(name).join(", ")];
    if (before === after) return [];
    if (to.get(name) === undefined) return [`- ${name}: ${shown(before)}`];
    if (from.get(name) === undefined) return [`+ ${name}: ${shown(after)}`];
    return [`~ ${name}: ${shown(before)} -> ${shown(after)}`];
  });
}

function bodyChange(
  { body: from }: Pick<HttpRequest, "body">,
  { body: to }: Pick<HttpRequest, "body">,
): string[] {
  if (from === to) return [];
  if (to === null) return ["- body"];
  const length = to.length === null ? "length not known before its end" : `${to.length} bytes`;
  return [`${from === null ? "+" : "~"} body: ${length}`];
}

function shown(text: string): string {
  return text.length > VALUE_CHARS ? `${text.slice(0, VALUE_CHARS)}...` : text;
}
