import { CONSUL } from "../kit/consul.ts";
import { explained } from "../stories/explain.ts";

explained(CONSUL);
