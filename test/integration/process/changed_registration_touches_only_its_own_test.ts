import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { changedRegistration } from "../../stories/changed_registration.ts";

changedRegistration(DevMesh);
