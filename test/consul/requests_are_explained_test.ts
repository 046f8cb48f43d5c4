import { CONSUL } from "../kit/mesh/consul.ts";
import { explained } from "../stories/explain.ts";

explained(CONSUL);
