"""`python -m benchmarks sgmcmc`: tables and errors."""

from benchmarks.commands import sgmcmc
from benchmarks.commands.parts import report_resumed_parts


def row(rmse, **figures):
    return {"rmse_eV": rmse, "crps_eV": 0.1, "coverage": 0.91, "seconds": 100.0} | figures


def test_tables_show_methods_agreement_and_time_of_an_iteration(capsys):
    chains = {
        "rhat_max": 1.5,
        "rhat_predictions": 1.1,
        "stored_MB": 48.0,
        "prediction_seconds": 3.0,
    }
    result = {
        "n": 8000,
        "n_test": 4000,
        "n_exact": 500,
        "repeats": 3,
        "sides": {
            "btl_pcp_sg": row(0.21, **chains),
            "ensemble": row(0.23, networks=12.0),
        },
        "each": [{"btl_pcp_sg": row(0.2, **chains)}],
        "pruned": {"0.5": row(0.22, **(chains | {"stored_MB": 24.0}))},
        "agreement": {
            "btl_pcp_pe": row(0.3, rhat_max=1.02),
            "btl_pcp_sg": row(0.31, rhat_max=1.4),
            "difference": {"means_in_sd": 0.123, "means_in_errors": 1.5, "sd_ratio": 1.07},
        },
        "ms_per_iteration": {"1000": 5.0, "8000": 5.25},
    }
    sgmcmc.print_sgmcmc(result)
    report_resumed_parts(2)
    text = " ".join(capsys.readouterr().out.split())
    assert "0.2100" in text and "0.2300" in text and "91.0 %" in text and "12" in text
    assert "0 % 0.2000" in text and "50 % 0.2200 0.1000 91.0 % 1.10 24.0 3.0" in text
    assert "8,000 molecules, 4,000 for testing, medians of 3." in text
    assert "2 parts are from an earlier run with --parts" in text
    assert "Chains of btl_pcp_sg: largest R-hat 1.50, of predictions 1.10." in text
    assert "Their means differ by 0.123 posterior sd and 1.50 Monte-Carlo errors" in text
    assert (
        "Milliseconds of an iteration of 4 chains by number of rows: 1,000: 5.00, 8,000: 5.25."
        in text
    )


def test_folder_without_the_molecules_is_refused(run, tmp_path):
    result = run("sgmcmc", "--data", tmp_path)
    assert result.exit_code == 1
    assert "qm9_gap.extxyz.gz: no such file." in result.output
