/** Sends pairs of proxies the same requests and lists the differences. @module */

import { createHash } from "node:crypto";
import { FROM, REQUEST_ID } from "../kit/wire/planned_app.ts";
import type { Place } from "../kit/wire/echo.ts";
import {
  type ReceivedResponse,
  sendHttp1,
  sendHttp2,
  type WrittenRequest,
} from "../kit/wire/send_request.ts";
import { type MixedMesh, PROXIES, type Proxy } from "../kit/mesh/mixed_mesh.ts";
import { eventually } from "../kit/process/process.ts";
import type { Area, Case } from "./case.ts";
import { type Explainers, Predictions, type Went, whyUnasked } from "./explained.ts";

export type Pair = readonly [from: Proxy, to: Proxy];

const SEND = { "1.1": sendHttp1, "2": sendHttp2 };
const BASELINE: Pair = ["envoy", "envoy"];
const SAME: Pair = ["postern", "postern"];
export const MIXED: readonly Pair[] = PROXIES.flatMap((from) =>
  PROXIES.filter((to) => to !== from).map((to) => [from, to] as const)
);
/** The number of an area's cases that mixed pairs ask. */
const SAMPLE = 3;
/** Above the time that a case names: a busy machine's part, and less than any default. */
const SLACK_MS = 8_000;
const SHARE_TOLERANCE = 0.15;
const AT_A_TIME = 8;
const NOTHING: WrittenRequest = {
  method: "GET",
  path: "/",
  fields: [],
  body: "",
  streamed: false,
  trailers: [],
  upgrade: false,
};

/** Differences that mean nothing for the behaviour of a proxy. */
const NOISE: readonly RegExp[] = [
  // Whether there is one means nothing.
  /^[<>] content-length: 0$/,
  // The time left.
  /^> try \d: x-envoy-expected-rq-timeout-ms: /,
  // Hop by hop: whether the rest of a body is read.
  /^< connection: close$/,
];

/**
 * One case by one pair: the request at the application (`>`) and the response at the caller (`<`).
 */
interface Outcome {
  readonly gist: string;
  readonly lines: readonly string[];
}

/**
 * One request to several proxies that should answer alike; the first is Envoy, or a pair of them.
 */
export interface Round {
  readonly name: string;
  readonly of: Pick<
    Case,
    "wire" | "ask" | "want" | "waitsMs" | "times" | "shares" | "isSticky" | "isCrowded"
  >;
  readonly places: readonly (readonly [who: string, place: Place, by?: Explainers | undefined])[];
}

/** Each case by two Envoys, two Posterns and, some, by one of each. */
export function roundsOf(mesh: MixedMesh, area: Area): readonly Round[] {
  return area.cases.map((one, index) => {
    const isMixed = area.isMixed || index % SAMPLE === 0;
    const pairs = [BASELINE, SAME, ...(isMixed ? MIXED : [])];
    return {
      name: `${area.name}: ${one.name} (${one.to}, ${one.wire ?? "1.1"})`,
      of: one,
      places: pairs.map(([from, to]) => {
        const upstream = `${one.to}-${to}`;
        const by = explainersOf(mesh, { from, upstream });
        return [`${from} calls ${to}`, mesh.upstream(from, upstream), by] as const;
      }),
    };
  });
}

/** The explainers of a request to an upstream of the caller. */
export function explainersOf(
  mesh: MixedMesh,
  { from, upstream }: { readonly from: Proxy; readonly upstream: string },
): Explainers {
  const caller = mesh.postern(`web-${from}`);
  const calleeOf = (service: string) => {
    const sidecar = mesh.postern(service);
    return sidecar && { sidecar, query: { source: "web" } };
  };
  const callee = calleeOf(upstream);
  return {
    ...(caller && { caller: { sidecar: caller, query: { upstream } } }),
    ...(callee && { callee }),
    calleeOf,
  };
}

export class Comparison {
  /** The outcomes that `explain` did not predict, and how many requests it predicted. */
  readonly unexplained: string[] = [];
  explained = 0;
  /** Requests that cannot be put to it, and why. */
  readonly unasked = new Map<string, string>();
  readonly #mesh: MixedMesh;
  #asked = 0;

  constructor(mesh: MixedMesh) {
    this.#mesh = mesh;
  }

  /** Every proxy has all it needs for the first request of each kind. */
  async ready(rounds: readonly Round[]): Promise<void> {
    // One case of each place that is to be answered.
    const answered = rounds.filter(({ of }) => !of.want.startsWith("503"));
    const firsts = new Map(
      answered.flatMap(({ name, of: { wire = "1.1" }, places }) =>
        places.map(([who, place]) =>
          [place.port, { what: `${name}, ${who}`, place, wire }] as const
        )
      ),
    );
    await Promise.all(
      [...firsts.values()].map(({ what, place, wire }) =>
        eventually(`a first request gets through: ${what}`, async () => {
          const { gist } = await this.#once({ want: "", wire }, place);
          return !/^503|no answer$/.test(gist);
        })
      ),
    );
  }

  /** The differences, a few rounds at a time. */
  async differences(rounds: readonly Round[], atATime = AT_A_TIME): Promise<readonly string[]> {
    const found: string[][] = [];
    // One iterator for all: each round is taken once.
    const next = rounds.entries();
    const work = async () => {
      for (const [index, round] of next) found[index] = await this.#differencesOf(round);
    };
    await Promise.all(Array.from({ length: atATime }, work));
    return found.flat();
  }

  async #differencesOf({ name, of, places }: Round): Promise<string[]> {
    const outcomes = await Promise.all(places.map(async ([who, place, by]) => {
      const predictions = by && await this.#predicted(of, by, name);
      const report = (why: string) => this.unexplained.push(`${name}, ${who}: ${why}`);
      return await this.outcome(of, place, (went) => {
        const why = predictions?.whyNot(went);
        if (why !== undefined) report(why);
      });
    }));
    const [first, ...others] = outcomes;
    const want = first?.lines ?? [];
    const found = first?.gist === of.want
      ? []
      : [`${name}: Envoy answers ${first?.gist}, not ${of.want}`];
    return others.reduce((all, { lines }, at) => {
      const less = want.filter((line) => !lines.includes(line)).map((line) => `- ${line}`);
      const more = lines.filter((line) => !want.includes(line)).map((line) => `+ ${line}`);
      const who = places[at + 1]?.[0];
      return [...all, ...[...less, ...more].map((line) => `${name}, ${who}: ${line}`)];
    }, found);
  }

  async #predicted(
    { ask, isCrowded }: Round["of"],
    by: Explainers,
    name: string,
  ): Promise<Predictions | undefined> {
    const asked = { ...NOTHING, ...ask };
    const why = isCrowded ? "others are asked at once" : whyUnasked(asked);
    if (why !== undefined) {
      this.unasked.set(name, why);
      return undefined;
    }
    this.explained++;
    return await Predictions.of(by, asked);
  }

  async outcome(
    of: Round["of"],
    place: Place,
    onWent: (went: Went) => void = () => {},
  ): Promise<Outcome> {
    if (!of.times) return await this.#once(of, place, onWent);
    const gists: string[] = [];
    for (let left = of.times; left > 0; left -= AT_A_TIME) {
      const some = Array.from(
        { length: Math.min(left, AT_A_TIME) },
        () => this.#once(of, place, onWent),
      );
      gists.push(...(await Promise.all(some)).map(({ gist }) => gist));
    }
    const kinds = [...new Set(gists)].sort();
    if (of.isSticky && kinds.length === 1) return { gist: "one", lines: ["one", ...kinds] };
    const uneven = Object.entries(of.shares ?? {}).flatMap(([gist, share]) => {
      const is = gists.filter((one) => one === gist).length / gists.length;
      return Math.abs(is - share) < SHARE_TOLERANCE ? [] : [`${gist} at ${is}`];
    });
    const gist = [kinds.join(" | "), ...uneven].join(", ");
    return { gist, lines: [gist] };
  }

  async #once(
    of: Round["of"],
    place: Place,
    onWent: (went: Went) => void = () => {},
  ): Promise<Outcome> {
    const { wire = "1.1", ask, waitsMs } = of;
    const asked = `${++this.#asked}`;
    const begun = performance.now();
    const got = await SEND[wire](place, {
      ...NOTHING,
      ...ask,
      fields: [...ask?.fields ?? [], `${REQUEST_ID}: ${asked}`],
    }).catch((error) => ({
      first: String(error),
      fields: [],
      body: "",
      trailers: [],
      informational: [],
      ending: "no answer",
    }));
    const took = performance.now() - begun;
    const tries = this.#mesh.seen(asked);
    onWent(wentAs(got, tries.map(({ first }) => first)));
    const timing = waitsMs === undefined ? "" : timingOf(took, waitsMs);
    const gist = [gistOf(got), tries.length > 1 ? `${tries.length} tries` : "", timing]
      .filter((part) => part !== "").join(", ");
    const lines = [gist, ...shownAnswer(got)];
    lines.push(...got.trailers.map((one) => `<< ${one}`));
    tries.forEach((seen, at) => {
      const mark = at === 0 ? ">" : `> try ${at + 1}:`;
      lines.push(`${mark} ${seen.first} ${shownBody(seen.body)}`);
      lines.push(...byName(seen.fields).map((field) => `${mark} ${field}`));
      lines.push(...seen.trailers.map((one) => `>> ${one}`));
    });
    return { gist, lines: lines.filter((line) => !NOISE.some((noise) => noise.test(line))) };
  }
}

function timingOf(tookMs: number, waitsMs: number): string {
  if (tookMs < waitsMs * 0.95) return "";
  return tookMs < waitsMs + SLACK_MS ? "waited" : "late";
}

function wentAs(got: ReceivedResponse, tries: readonly string[]): Went {
  const grpc = valueIn(got, "grpc-status");
  return {
    status: /^\d{3}$/.test(got.first) ? Number(got.first) : 0,
    grpcStatus: grpc === undefined ? undefined : Number(grpc),
    from: valueIn(got, FROM),
    tries,
  };
}

function valueIn({ fields, trailers }: ReceivedResponse, name: string): string | undefined {
  return [...fields, ...trailers].find((line) => line.startsWith(`${name}: `))
    ?.slice(name.length + 2);
}

/** `200`, `200 other`, `200 grpc 14`, `200 cut`. */
function gistOf(got: ReceivedResponse): string {
  const { first, ending } = got;
  const valueOf = (name: string) => valueIn(got, name);
  const grpc = valueOf("grpc-status");
  return [
    first,
    ...(grpc === undefined ? [] : [`grpc ${grpc}`]),
    ...[valueOf(FROM) ?? []].flat(),
    ...(ending === "complete" ? [] : [ending]),
  ].join(" ");
}

function shownAnswer({ first, ending, body, fields, informational }: ReceivedResponse): string[] {
  return [
    ...informational.map((line) => `< ${line}`),
    `< ${first} ${ending} ${shownBody(body)}`,
    ...byName(fields).map((field) => `< ${field}`),
  ];
}

/** Each name with all of its values, in their order. */
function byName(fields: readonly string[]): string[] {
  const all = new Map<string, string>();
  for (const field of fields.map(plain)) {
    const name = field.slice(0, field.indexOf(":", 1));
    const before = all.get(name);
    all.set(name, before === undefined ? field : `${before} | ${field.slice(name.length + 2)}`);
  }
  return [...all.values()].sort();
}

function shownBody(body: string): string {
  if (body.length < 200) return JSON.stringify(body);
  return `${body.length} bytes, ${createHash("sha1").update(body).digest("hex")}`;
}

/**
 * Without fields that differ from request to request, and the names of the services behind each proxy.
 */
function plain(field: string): string {
  return field
    .replace(/-(envoy|postern)(?=$|[;,"])/g, "")
    .replace(/^(x-request-id): [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, "$1: ID")
    .replace(/^(date): (?!.* 2024 ).*/, "$1: now")
    .replace(/^(x-envoy-upstream-service-time): \d+$/, "$1: N")
    .replace(/^(set-cookie: place=)"[0-9a-f]{16}"/, '$1"VALUE"')
    // A handshake of Postern's may show the root, too.
    .replace(/(Chain="[^"]*?END%20CERTIFICATE-----%0A)[^"]*/, "$1");
}
