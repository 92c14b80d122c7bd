"""Small exports in the formats that labelling tools document, with equal contents: 24 texts, 3 annotators each."""

import json
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc

ANNOTATORS = ("ann", "bob", "eve")
WORDS = {"yes": "lovely", "no": "awful"}


def labels():
    """Return (number, text, annotator, label, seconds) of every label; eve is often wrong."""
    rng = np.random.default_rng(0)
    for i in range(24):
        true = "yes" if i % 2 else "no"
        for who in ANNOTATORS:
            wrong = rng.random() < (0.4 if who == "eve" else 0.1)
            yield (
                i,
                f"film {i} is {WORDS[true]} indeed",
                who,
                ("no" if i % 2 else "yes") if wrong else true,
                1.5 + i % 5,
            )


def by_text():
    found = {}
    for i, text, who, label, seconds in labels():
        found.setdefault((i, text), []).append((who, label, seconds))
    return [(i, text, given) for (i, text), given in found.items()]


def choice(label, name="sentiment"):
    return {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": [label]}}


def label_studio(folder):
    tasks = []
    for i, text, given in by_text():
        annotations = [
            {
                "id": 100 * i + n,
                "result": [choice(label)],
                "was_cancelled": False,
                "ground_truth": False,
                "created_at": f"2024-05-01T10:{i:02}:{n:02}.5Z",
                "lead_time": seconds,
                "completed_by": ANNOTATORS.index(who) + 1,
            }
            for n, (who, label, seconds) in enumerate(given)
        ]
        predictions = [{"model_version": "v1", "score": 0.25 + i / 100, "result": [choice("yes")]}]
        tasks.append({"id": i, "data": {"text": text}, "annotations": annotations, "predictions": predictions})
    return write_json(folder / "export.json", tasks)


def argilla(folder):
    records = [
        {
            "id": str(i),
            "fields": {"text": text},
            "metadata": {},
            "suggestions": {"sentiment": {"value": "yes", "score": 0.25 + i / 100, "agent": "v1"}},
            "responses": {"sentiment": [{"value": label, "user_id": who} for who, label, _ in given]},
            "vectors": {},
        }
        for i, text, given in by_text()
    ]
    return write_json(folder / "records.json", records)


def prodigy(folder):
    options = [{"id": "yes", "text": "Yes"}, {"id": "no", "text": "No"}]
    tasks = [
        {
            "text": text,
            "_input_hash": i,
            "_task_hash": -i,
            "options": options,
            "_view_id": "choice",
            "accept": [label],
            "answer": "accept",
            "_timestamp": 1714557600 + 60 * i,
            "_annotator_id": f"films-{who}",
            "_session_id": f"films-{who}",
            "meta": {"score": 0.25 + i / 100},
        }
        for i, text, who, label, _ in labels()
    ]
    return write_lines(folder / "films.jsonl", tasks)


def doccano(folder):
    with zipfile.ZipFile(folder / "export.zip", "w") as packed:
        for one in ANNOTATORS:
            rows = [
                {"id": i, "text": text, "label": [label], "Comments": []}
                for i, text, who, label, _ in labels()
                if who == one
            ]
            packed.writestr(f"{one}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return folder / "export.zip"


def wide(folder):
    rows = [{"id": i, **{who: int(label == "yes") for who, label, _ in given}} for i, _, given in by_text()]
    table = pd.DataFrame(rows)
    table.loc[3, "eve"] = -1
    table["x"] = [i % 2 + 0.1 * (i % 7) for i in range(len(table))]
    table.to_csv(folder / "wide.csv", index=False)
    return folder / "wide.csv"


def huggingface(folder):
    """Write what `Dataset.save_to_disk` writes: a stream of Arrow, its state, and the features."""
    rows = [(text, who, int(label == "yes"), seconds) for _, text, who, label, seconds in labels()]
    columns = map(list, zip(*rows, strict=True))
    table = pa.table(dict(zip(["text", "annotator", "label", "seconds"], columns, strict=True)))
    folder = folder / "dataset"
    folder.mkdir()
    with pa.ipc.new_stream(str(folder / "data-00000-of-00001.arrow"), table.schema) as writer:
        writer.write_table(table)
    features = {
        "text": {"dtype": "string", "_type": "Value"},
        "annotator": {"dtype": "string", "_type": "Value"},
        "label": {"names": ["no", "yes"], "_type": "ClassLabel"},
        "seconds": {"dtype": "float64", "_type": "Value"},
    }
    write_json(folder / "dataset_info.json", {"features": features})
    write_json(folder / "state.json", {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": None})
    return folder


def judges(folder):
    lines = [
        {"item": i, "judge": who, "verdict": label, "seconds": seconds, "text": text}
        for i, text, who, label, seconds in labels()
    ]
    return write_lines(folder / "log.jsonl", lines)


def answer(number, who, label):
    """Return an annotator's other answers: how sure they are, and whether the text is relevant."""
    return 1 + (number + len(label) + ANNOTATORS.index(who)) % 5, "yes" if number % 3 else "no"


def ask_label_studio(folder):
    tasks = json.loads(label_studio(folder).read_text())
    for task, (i, _, given) in zip(tasks, by_text(), strict=True):
        for annotation, (who, label, _) in zip(task["annotations"], given, strict=True):
            sure, relevant = answer(i, who, label)
            rating = {"from_name": "confidence", "to_name": "text", "type": "rating", "value": {"rating": sure}}
            annotation["result"] += [choice(relevant, "relevant"), rating]
    return write_json(folder / "export.json", tasks)


def ask_argilla(folder):
    records = json.loads(argilla(folder).read_text())
    for record, (i, _, given) in zip(records, by_text(), strict=True):
        answers = [(who, *answer(i, who, label)) for who, label, _ in given]
        record["responses"]["relevant"] = [{"value": relevant, "user_id": who} for who, _, relevant in answers]
        record["responses"]["confidence"] = [{"value": sure, "user_id": who} for who, sure, _ in answers]
    return write_json(folder / "records.json", records)


def ask_prodigy(folder):
    tasks = [json.loads(line) for line in prodigy(folder).read_text().splitlines()]
    answers = [answer(i, who, label) for i, _, who, label, _ in labels()]
    asked = [
        task | {"_view_id": "blocks", "confidence": sure, "relevant": relevant}
        for task, (sure, relevant) in zip(tasks, answers, strict=True)
    ]
    return write_lines(folder / "films.jsonl", asked)


def ask_doccano(folder):
    folder = folder / "doccano"
    folder.mkdir()
    for one in ANNOTATORS:
        rows = [
            {"id": i, "text": text, "label": [label], "confidence": answer(i, who, label)[0]}
            for i, text, who, label, _ in labels()
            if who == one
        ]
        write_lines(folder / f"{one}.jsonl", rows)
    return folder


def ask_wide(folder):
    table = pd.read_csv(wide(folder))
    for who in ANNOTATORS:
        table[f"{who}_confidence"] = [answer(i, who, str(table[who][i]))[0] for i in range(len(table))]
    table.to_csv(folder / "wide.csv", index=False)
    return folder / "wide.csv"


def ask_huggingface(folder):
    rows = [
        {"doc_id": f"d{i}", "text": text, "worker": who, "label": label, "relevant": who[:1], "confidence": sure}
        for i, text, who, label, _ in labels()
        for sure, _ in [answer(i, who, label)]
    ]
    return write_lines(folder / "dataset.jsonl", rows)


def ask_judges(folder):
    lines = [json.loads(line) for line in judges(folder).read_text().splitlines()]
    asked = [line | {"confidence": answer(line["item"], line["judge"], line["verdict"])[0]} for line in lines]
    return write_lines(folder / "log.jsonl", asked)


SEVERAL_QUESTIONS = {
    "label-studio": ask_label_studio,
    "argilla": ask_argilla,
    "prodigy": ask_prodigy,
    "doccano": ask_doccano,
    "wide": ask_wide,
    "huggingface": ask_huggingface,
    "judges": ask_judges,
}
"""Exports in which annotators also say how sure they are."""

EXPORTS = {
    "label-studio": label_studio,
    "argilla": argilla,
    "prodigy": prodigy,
    "doccano": doccano,
    "wide": wide,
    "huggingface": huggingface,
    "judges": judges,
}


def write_json(path, content):
    path.write_text(json.dumps(content))
    return path


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
