/** Findings of `postern doctor`, and their report. @module */

import { formatSpanMs } from "../../../base/mod.ts";
import { paint, type Screen, tint, type Tone, wrapped } from "../live/terminal.ts";

export type DoctorLevel = "failure" | "warning" | "ok";

export interface DoctorFinding {
  /** The check that found it: `upstreams`. */
  readonly check: string;
  /** `failure`: traffic fails, or will at its next use. */
  readonly level: DoctorLevel;
  readonly what: string;
  /** The effect on traffic; `""` with `ok`. */
  readonly why: string;
  /** What an operator does about it; `""` with `ok`. */
  readonly fix: string;
}

interface Described {
  readonly what: string;
  readonly why: string;
  readonly fix: string;
}

interface FindingMakers {
  failure(described: Described): DoctorFinding;
  warning(described: Described): DoctorFinding;
  ok(what: string): DoctorFinding;
}

/** Builds the findings of one check. */
export function findingsOf(check: string): FindingMakers {
  return {
    failure: (described) => ({ check, level: "failure", ...described }),
    warning: (described) => ({ check, level: "warning", ...described }),
    ok: (what) => ({ check, level: "ok", what, why: "", fix: "" }),
  };
}

/** `found`, or else one finding that the check passed. */
export function orOk(
  found: readonly DoctorFinding[],
  ok: DoctorFinding,
): readonly DoctorFinding[] {
  return found.length > 0 ? found : [ok];
}

export interface DoctorReport {
  /** `web-1-sidecar-proxy of service web`. */
  readonly proxy: string;
  readonly findings: readonly DoctorFinding[];
}

/** 1 where traffic fails. */
export function doctorExitCode({ findings }: DoctorReport): 0 | 1 {
  return findings.some(({ level }) => level === "failure") ? 1 : 0;
}

const ORDER: readonly DoctorLevel[] = ["failure", "warning", "ok"];
const LABELS: Readonly<Record<DoctorLevel, { readonly text: string; readonly tone: Tone }>> = {
  failure: { text: "FAIL", tone: "bad" },
  warning: { text: "WARN", tone: "warn" },
  ok: { text: "ok", tone: "good" },
};
const INDENT = "      ";

/** Failures first, each with its reason and its fix. */
export function doctorLines(report: DoctorReport, screen: Screen): readonly string[] {
  const sorted = ORDER.flatMap((wanted) => report.findings.filter(({ level }) => level === wanted));
  const numberOf = (wanted: DoctorLevel) => {
    return countOf(sorted.filter(({ level }) => level === wanted).length, wanted);
  };
  return [
    paint(tint(report.proxy, "bold"), screen),
    ...sorted.flatMap(({ check, level, what, why, fix }) => {
      const { text, tone } = LABELS[level];
      const [first = "", ...rest] = wrapped(`${check}: ${what}`, INDENT, screen);
      return [
        paint(tint(text, tone), screen) + first.slice(text.length),
        ...rest,
        ...why === "" ? [] : wrapped(`why: ${why}`, INDENT, screen)
          .map((line) => paint(tint(line, "dim"), screen)),
        ...fix === "" ? [] : wrapped(`fix: ${fix}`, INDENT, screen),
      ];
    }),
    `${numberOf("failure")}, ${numberOf("warning")}`,
  ];
}

/** `1 listener`, `2 listeners`, `2 addresses`. */
export function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
}

/** `expires in 3h12m`, `expired 2d ago`. */
export function expiryOf(notAfterMs: number, nowMs: number): string {
  const leftMs = notAfterMs - nowMs;
  return leftMs < 0 ? `expired ${formatSpanMs(-leftMs)} ago` : `expires in ${formatSpanMs(leftMs)}`;
}
