/** Maintenance mode, which Consul keeps as critical checks with ids and names of their own. @module */

interface MaintenanceCheck {
  readonly CheckID: string;
  readonly Status: string;
  readonly Output: string;
  /** The reason that the operator gave. */
  readonly Notes: string;
}

const REASON_LIMIT = 120;
/** A sidecar is registered with a check that repeats those of its service. */
const ALIASED = /^Aliased check "(Service|Node) Maintenance Mode" failing/;

/** `set on service db-1: "kernel update"`; `undefined`: the check is none of maintenance mode. */
export function maintenanceIn(
  { CheckID, Status, Output, Notes }: MaintenanceCheck,
): string | undefined {
  if (Status !== "critical") return undefined;
  const [, scope, id = ""] = /^_(service|node)_maintenance(?::(.*))?$/.exec(CheckID) ?? [];
  if (scope !== undefined) {
    return `set on ${scope === "node" ? "its node" : `service ${id}`}${reasonIn(Notes)}`;
  }
  const [, aliased] = ALIASED.exec(Output) ?? [];
  return aliased && `set on its ${aliased.toLowerCase()}`;
}

function reasonIn(notes: string): string {
  // Consul's own text where the operator gave none.
  if (notes === "" || notes.includes("no reason was provided")) return "";
  const text = notes.length > REASON_LIMIT ? `${notes.slice(0, REASON_LIMIT)}...` : notes;
  return `: ${JSON.stringify(text)}`;
}
