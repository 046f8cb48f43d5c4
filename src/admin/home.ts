/** The pages of the admin server, as the page at `/` and its help list them. @module */

/** Path and purpose; the method where it is not GET. */
export const PATHS: readonly (readonly [string, string, ("POST")?])[] = [
  ["/ready", "200 when traffic can be carried, else 503 with the reasons"],
  ["/live", "200 while the process answers"],
  [
    "/stats",
    "counters, under Envoy's names, too; ?filter=REGEX of a line's name and labels, ?type=Counters, " +
    "?usedonly, ?histogram_buckets=cumulative or disjoint, ?format=json, prometheus or postern",
  ],
  ["/stats/prometheus", "the same for Prometheus"],
  ["/certs", "every certificate and CA in use, how long they are valid, and who uses them"],
  [
    "/events",
    "what happened, newest first; ?kind=KIND, ?since=10m, ?limit=N, ?format=text; ?follow for a stream",
  ],
  ["/clusters", "endpoints of every cluster; ?format=json as Envoy has it, or postern"],
  [
    "/listeners",
    "listeners, those that wait for secrets too; ?format=json as Envoy has it, or postern",
  ],
  [
    "/traffic",
    "requests, errors, latency and bytes by caller, upstream, endpoint and route; the last refusals " +
    "and the slowest requests",
  ],
  ["/connections", "open connections, and their requests; ?limit=N, ?listener=NAME"],
  [
    "/tap",
    "each connection and request as it ends, as server-sent events of JSON lines; ?source=, " +
    "?upstream=, ?path=, ?status=, ?denied, ?slow=MS, ?header=NAME",
  ],
  [
    "/explain",
    "what would happen to a request; ?upstream=NAME or ?source=SERVICE, ?method=, ?path=, " +
    "?header=NAME:VALUE, ?format=text",
  ],
  ["/plugins", "plugins of every listener: generation, state, exchanges, failures"],
  ["/plugins/reload", "read files again, all or nothing, as SIGHUP does", "POST"],
  ["/config_dump", "the state in force, without keys"],
  ["/server_info", "version, state, options"],
  ["/logging", "log level; POST with ?level=debug changes it"],
  ["/reset_counters", "show counters from zero again", "POST"],
  ["/drain_listeners", "stop accepting connections", "POST"],
  ["/quitquitquit", "drain and end", "POST"],
];

/** Files that the page at `/` loads. */
export const PAGE_FILES = [
  "/page.css",
  "/page.js",
  "/icon-ok.svg",
  "/icon-warn.svg",
  "/icon-bad.svg",
] as const;

export interface PageFile {
  readonly type: string;
  readonly text: string;
}
