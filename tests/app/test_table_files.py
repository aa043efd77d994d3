"""Tables of the pages with a button for their CSV."""

from streamlit.testing.v1 import AppTest

from app.components.shared import tables


def test_table_has_a_button_for_its_csv_below_it() -> None:
    def page() -> None:
        import pandas

        from app.components.shared import downloads

        table = pandas.DataFrame({"layer": ["layer 1"], "tau": [0.25]})
        downloads.table_with_csv(table, "scales.csv", alt="Scales of the layers")

    at = AppTest.from_function(page).run()
    assert not at.exception
    elements = [element.type for element in at.main]
    assert elements.index("dataframe") < elements.index("download_button")
    (button,) = at.get("download_button")
    assert button.proto.label == "Download the table (CSV)"


def test_column_of_run_names_is_as_wide_as_the_longest_one_up_to_a_limit() -> None:
    name = "Bayesian transfer, penalized complexity, copy 1"
    assert tables.name_width([name, "Ridge"], least=228) >= 6.4 * len(name)
    assert tables.name_width(["Ridge"], least=228) == 228
    assert tables.name_width(["x" * 500], least=228) == 420
